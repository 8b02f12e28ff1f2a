-- include: prelude keys record admin scheduled find_payload
-- CANCEL: removes one payload, named by its arrival, that is scheduled, waits (behind a run, too), is in back-off or parked. The rest of
-- its id keeps due time, retry_count and place; with the last payload the id goes.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 stamp (8 bytes >d), 4 where to go on ('' at first)
-- Returns {1, or 0: it is claimed, dead or gone, where to go on ('' at the end)}
local id, stamp = ARGV[2], ARGV[3]
if #stamp ~= 8 then return error_reply('ERR wrong arguments') end
probe()
probe_scheduled({id})

if call('ZSCORE', SCHED .. id, stamp) then
  local there = call('HEXISTS', SCHEDMAP .. id, stamp)
  open_for_writing()
  unschedule(id, {stamp})
  note_delivers()
  note(id, EVENT_CANCELLED)
  advance()
  save()
  return {there, ''}
end

local e, r, store, following = look_for(id, stamp, ARGV[4])
if not e then return {0, following} end
open_for_writing()
take_entry(store, id, r, e)
note(id, EVENT_CANCELLED)
advance()
save()
return {1, ''}
