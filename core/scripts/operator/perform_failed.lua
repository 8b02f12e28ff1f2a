-- include: prelude record admin
-- PERFORM_FAILED: ids that wait for a retry become due when the action began; retry_count stays. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, cursor ('' at the end), changed}. Delayed ids that never failed are not touched. An id that runs and fails during the
--   action may be seen again, and then it is due again.
probe()
local records, following = failed_slice((read_cursor(ARGV[3])))
local began = begin(ARGV[2])
local changed = 0
open_for_writing()
for id, r in pairs(records) do
  if is_due_later(r) then
    perform_at(began, first, id, r)
    changed = changed + 1
  end
end
if changed > 0 then note_due() end
save()
return {format('%.0f', began), following, changed}
