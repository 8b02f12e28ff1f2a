-- library: ready - pages of the ready list, which is nearly sorted; its entries may be stale or double, so the records are asked
-- include: runs

-- The key of an index, of each but the ready list a sorted set.
local function key_of(index)
  local KEYS_OF = {due = DUE, unproven = UNPROVEN, suspect = SUSPECT, retry = RETRY, died = DIED, parked = PARKED, moving = PREFIX .. 'moving'}
  return KEYS_OF[index]
end

-- Adds id, due time, ... of its entries from a place on, from the other end when `down`. Returns how many entries it looked at.
local function list_ready(answer, down, from, limit)
  local ids = down and call('LRANGE', READY, -from - limit, -from - 1) or call('LRANGE', READY, from, from + limit - 1)
  if not ids[1] then return 0 end
  local records, runs = call('HMGET', JOBS, unpack(ids)), runs_of(ids)
  for i = 1, #ids do
    local record, at = records[i], #answer
    if record and not runs[i] and byte(record) % RECORD_PLACES == PLACE_READY then
      answer[at + 1], answer[at + 2] = ids[i], format('%.0f', unpack_struct('<d', record, RECORD_DUE + 1))
    end
  end
  return #ids
end
