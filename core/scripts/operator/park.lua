-- include: prelude keys record admin
-- PARK: stops ids with all their payloads until an operator unparks them. A running id is parked when its run is settled.
-- KEYS: the shard's
-- ARGV: 1 generation, 2.. ids, at most 1,000
-- Returns the number of ids that were there
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
    if digit_of(run) % RUN_TO_LEAVE < RUN_TO_PARK then flagged(id, run, digit_of(run) + RUN_TO_PARK) end
  elseif r and r.place ~= PLACE_PARKED then
    unplace(id, r)
    place(id, r, true)
    rewrite(first, id, r)
  end
  if run or r then
    count = count + 1
    note(id, EVENT_PARKED)
  end
end
if count > 0 then
  advance()
  tell_owner('!')
end
save()
return count
