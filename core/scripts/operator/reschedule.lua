-- include: prelude keys record admin scheduled find_payload
-- RESCHEDULE: gives one payload, named by its arrival, another deliver_at: one that is scheduled, or that waits and was never
-- delivered, but not of a parked id, which is to stay parked. In the past: a scheduled one arrives with the next claim, and the id
-- of another becomes due now.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 stamp (8 bytes >d), 4 where to go on ('' at first), 5 deliver_at in microseconds, 6 '1': its score was given
--       with the push, and stays; else deliver_at will be its score
-- Returns {1, or 0: it was delivered, is parked, dead or gone, where to go on ('' at the end)}
local id, stamp, at = ARGV[2], ARGV[3], tonumber(ARGV[5])
if #stamp ~= 8 or not at or not (at >= 0 and at < FOREVER) then return error_reply('ERR wrong arguments') end
at = math.floor(max(at, now))
probe()
probe_scheduled({id})

-- The owner is to move at the new time what it knew to be moved later.
local function tell(before)
  note(id, EVENT_RESCHEDULED, at)
  advance()
  if delivers < before and is(FLAG_PAUSED) then tell_owner() else wake_owner(min(delivers, at)) end
  save()
end

local before = delivers
if call('ZSCORE', SCHED .. id, stamp) then
  if call('HEXISTS', SCHEDMAP .. id, stamp) == 0 then return {0, ''} end
  local time = format('%.0f', at)
  open_for_writing()
  call('ZADD', SCHEDULED, time, stamp .. id)
  call('ZADD', SCHED .. id, time, stamp)
  note_delivers()
  tell(before)
  return {1, ''}
end

local e, r, store, following = look_for(id, stamp, ARGV[4])
local was_delivered = r and (r.delivered or store == first and (r.retry >= 0 or r.mark ~= MARK_NONE or run_of(id)))
if not e or was_delivered or store == first and r.place == PLACE_PARKED then return {0, following} end
open_for_writing()
if at > now then
  take_entry(store, id, r, e)
  local has = ARGV[6] == '1' and 1 or 0
  if byte(e.context) == CONTEXT_DELIVERED then e.context = sub(e.context, CONTEXT_HEAD + 1) end
  schedule(id, stamp, at, pack('<Bddi4BI4', has, e.score, 0, -1, 1, #e.context) .. e.context .. e.payload)
elseif store == second or is_due_later(r) then
  perform_at(now, store, id, r)
end
tell(before)
return {1, ''}
