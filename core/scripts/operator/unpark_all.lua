-- include: prelude keys record admin
-- UNPARK_ALL: all that is parked when the action begins becomes due now, as new ids; running ids that were to be parked go on.
-- A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, '' or 'more', unparked}
local began = ARGV[2] == '0' and format('%.0f', now) or ARGV[2]
local ids = call('ZRANGEBYSCORE', PARKED, '-inf', began, 'LIMIT', 0, 100)
probe()
local waiting, runs = look(first, ids), ARGV[3] == '' and call('HGETALL', RUNNING) or {}
open_for_writing()
local count = 0
for i = 1, #runs, 2 do
  if runs[i] ~= '' and unpark_run(runs[i], runs[i + 1]) then count = count + 1 end
end
for i = 1, #ids do
  local id = ids[i]
  local r = waiting[id]
  call('ZREM', PARKED, id)
  if r and r.place == PLACE_PARKED then
    unpark(id, r)
    count = count + 1
  end
end
if count > 0 then
  note_due()
  save()
end
return {began, #ids == 100 and 'more' or '', count}
