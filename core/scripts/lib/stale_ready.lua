-- library: stale_ready - sets `wary`: do the counts show a stale entry in ready? An id that was deleted and pushed anew has two. Once
-- the id runs by one of them, its record still says "ready", and the other entry would be taken beside the run. Without a stale
-- entry, each id of jobs stands in one index or runs. Before: the variables wary, doubted, and the lengths due_count and ready_count.
-- It makes no function.
wary = call('HLEN', JOBS) ~= ready_count + due_count + call('HLEN', RUNNING) - call('HEXISTS', RUNNING, '') + held
  + call('ZCARD', PARKED) + (doubted and call('ZCARD', UNPROVEN) + call('ZCARD', SUSPECT) or 0)
  + (flags % (2 * FLAG_SOURCE) >= FLAG_SOURCE and call('ZCARD', PREFIX .. 'moving') or 0)
