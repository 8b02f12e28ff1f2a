-- include: prelude record admin
-- DELETE: removes ids that wait, are parked or in doubt. Of a running id it removes what waits behind it, and its run
-- will not be put back; what is pushed later stays.
-- KEYS: the shard's
-- ARGV: 1 generation, 2.. ids, at most 1,000
-- Returns the number of ids that were there
local ids = chosen(2)
probe()
local waiting, behind, runs = look(first, ids), look(second, ids), look_at_runs(ids)
open_for_writing()
spread()
local count = 0
for i = 1, #ids do
  local id = ids[i]
  local run, r, n = runs[id], waiting[id], behind[id]
  if n then remove(second, id, n) end
  if run then
    flagged(id, run, digit_of(run) % RUN_DELETED + RUN_DELETED)
  elseif r then
    remove(first, id, r)
  end
  if run or r or n then count = count + 1 end
end
if count > 0 then
  note_change()
  tell_owner(true)
end
save()
return count
