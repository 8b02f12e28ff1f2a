-- include: prelude keys flags runs is_out
-- METRICS: the figures of a shard.
-- KEYS: the shard's
-- ARGV: 1 generation
-- Returns {now, waiting, retries, busy, parked, dead, unproven, suspect, processed, failed, refused, paused, lag, first,
--   lease, fence of the last claim, owner, scheduled, removed from the morgue, stale, and while ids leave the shard for another number
--   of shards: how many have left, how many were there before, 1 if none is to leave any more; else 0}: microseconds; scheduled is
--   a number of payloads, whose deliver_at, once it has passed, counts as a due time; first is the smallest due time of what waits,
--   9e15 for none; what waits behind a running id counts as waiting.
local busy, parked = running_count(), call('ZCARD', PARKED)
local waiting = call('HLEN', JOBS) - busy - parked + call('HLEN', NEXT)
local soon = FOREVER

for _, key in ipairs({DUE, UNPROVEN, SUSPECT, is(FLAG_SOURCE) and PREFIX .. 'moving' or nil}) do
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  soon = min(soon, tonumber(head[2]) or FOREVER)
end

-- The head of the ready list is nearly sorted, and its entries may be stale.
local function ready_head()
  for from = 0, 900, 100 do
    local ids = call('LRANGE', READY, from, from + 99)
    if not ids[1] then return FOREVER end
    local head, records, runs = FOREVER, call('HMGET', JOBS, unpack(ids)), runs_of(ids)
    for i = 1, #ids do
      local record = records[i]
      if record and not runs[i] and byte(record) % RECORD_PLACES == PLACE_READY then head = min(head, (unpack_struct('<d', record, RECORD_DUE + 1))) end
    end
    if head < FOREVER then return head end
  end
  return FOREVER
end

soon = min(soon, ready_head())
if delivers <= now then soon = min(soon, delivers) end
local leaving = is(FLAG_SOURCE) and call('HMGET', PREFIX .. 'reshard', 'moved', 'ids', 'out', 'mark') or {}
local function whole(number) return format('%.0f', number) end
return {whole(now), waiting, call('ZCARD', RETRY), busy, parked, call('HLEN', DEAD), call('ZCARD', UNPROVEN),
  call('ZCARD', SUSPECT), whole(processed), whole(failed), whole(refused), is(FLAG_PAUSED) and 1 or 0, whole(max(0, now - soon)),
  whole(soon), whole(lease), whole(claimed), owner, call('ZCARD', PREFIX .. 'scheduled'), whole(removed), whole(stale),
  leaving[1] or 0, leaving[2] or 0, is_out(leaving[3], leaving[4]) and 1 or 0}
