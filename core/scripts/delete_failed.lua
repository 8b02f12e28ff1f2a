-- include: prelude record admin
-- DELETE_FAILED: removes ids that wait after a failure. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, cursor ('' at the end), deleted}. Payloads that came since the action began stay, as those of a new id.
probe()
local records, cursor = failed_slice(ARGV[3] == '' and '0' or ARGV[3])
local began = begin(ARGV[2])
open_for_writing()
local deleted = 0
for id, r in pairs(records) do
  local old = take_old(id, r, began)
  if not old then remove(first, id, r) end
  if not old or old[1] then deleted = deleted + 1 end
end
if deleted > 0 then note_change() end
save()
return {format('%.0f', began), cursor, deleted}
