-- library: earliest_due - for scripts that only look: the smallest due time of the ids that wait in a shard. It does not look at
-- scheduled payloads, which are in scheduled.lua.
-- It needs call, min, prefix, held and busy (whether anything runs) of the shard that is looked at, and sets earliest_due.
-- include: runs

-- Numbers in calls stand as text where they can: Redis prints any other as a fraction, which takes as long as a call.
local function head(kind)
  local first = tonumber(call('ZRANGE', prefix .. kind, '0', '0', 'WITHSCORES')[2])
  if first then earliest_due = min(earliest_due, first) end
  return first
end

-- The head of the ready list is nearly sorted, and its entries may be stale.
local function ready_head()
  local READY, JOBS = prefix .. 'ready', prefix .. 'jobs'
  local ids, looked = call('LRANGE', READY, '0', '3'), 4
  while ids[1] do
    local records, best = call('HMGET', JOBS, unpack(ids)), 9e15
    local runs = busy > 0 and runs_of(ids)
    for i = 1, #ids do
      local record = records[i]
      if record and not (runs and runs[i]) and string.byte(record) % RECORD_PLACES == PLACE_READY then
        best = min(best, (struct.unpack('<d', record, RECORD_DUE + 1)))
      end
    end
    earliest_due = min(earliest_due, best)
    if best < 9e15 or looked > 500 then return end
    ids, looked = call('LRANGE', READY, looked, looked + 49), looked + 50
  end
end
