-- include: prelude keys record admin
-- UNPARK: parked ids become due now, as new ones. A running id that was to be parked goes on.
-- KEYS: the shard's
-- ARGV: 1 generation, 2.. ids, at most 1,000
-- Returns the number of ids that were parked, or were to be
local ids = chosen(2)
probe()
local waiting, runs = look(first, ids), look_at_runs(ids)
open_for_writing()
spread()
local count = 0
for i = 1, #ids do
  local id = ids[i]
  local run, r = runs[id], waiting[id]
  if run then
    if unpark_run(id, run) then count = count + 1 end
  elseif r and r.place == PLACE_PARKED then
    unpark(id, r)
    count = count + 1
  end
end
if count > 0 then note_due() end
save()
return count
