-- include: prelude keys record admin
-- PERFORM_FAILED: ids that wait for a retry become due when the action began; retry_count stays. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, cursor ('' at the end), changed}. Delayed ids that never failed are not touched. An id that runs and fails during the
--   action may be seen again, and then it is due again.
probe()
local records, following = failed_slice((read_cursor(ARGV[3])))
return perform_slice(begin(ARGV[2]), first, records, following)
