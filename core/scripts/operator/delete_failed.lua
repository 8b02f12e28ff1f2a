-- include: prelude keys record admin
-- DELETE_FAILED: removes ids that wait after a failure. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, cursor ('' at the end), deleted}. Payloads that came since the action began stay, as those of a new id.
probe()
local records, following = failed_slice((read_cursor(ARGV[3])))
local began = begin(ARGV[2])
open_for_writing()

local function delete(id, r)
  remove(first, id, r)
  note(id, EVENT_DELETED)
  may_move = may_move - PORTION / REMOVED
  return true
end

local deleted, cursor = end_failed(records, began, ARGV[3], following, delete, function(id) note(id, EVENT_DELETED) end)
note_change()
save()
return {format('%.0f', began), cursor, deleted}
