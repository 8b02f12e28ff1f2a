-- include: prelude
-- PUSH: adds jobs of one shard, folding each into its id. At most 1,000 jobs a call.
-- KEYS: the shard's (prelude), 16 token: what this client pushed last
-- ARGV: 1 generation, 2 sequence of this call, 3 fold, 4 on_waiting, 5 values a job (see below): 2, or 3 when any has options, or 13: as 3, and
--       the answer names the arrivals; plus 20 where the queue has remember_score, plus 40 where the answer lists
--       the outcome of each job; 6 history_per_id, then per job: id, payload, options
--       ('' or packed: has B (1 score, 2 due, 4 delay,
--       8 deliver_at, 16 deliver_in), score d, time d (microseconds), retry_count i4, on_waiting B (0: the queue's), with 8 or 16:
--       deliver_at or deliver_in d (microseconds), context)
-- Returns 'taken new folded', followed by the places (from 1) of refused jobs and, where there are any, 's' and the number of scheduled
--   jobs, 't' and the number of stale ones, whose score is not above the one that is remembered of their id. With 40 and unless all
--   jobs are new, 'l' and a letter for each job that is taken: n new, f folded, r refused, s scheduled, t stale. With 13 also 'a' and the stamp before that of the first job: the arrival of the job at place i is i more, but for the
--   places that follow as 'place=stamp': jobs that were folded into an equal payload have its arrival, those that were not kept 0.
--   taken: that number of jobs, from the first, are written, or refused; fewer than were given where ids that are there already
--   cost much. The caller sends the others in another call. The same sequence again returns the same answer, and is remembered anew.
-- While ids move, ' here' follows the number of values in a push to the shard that the ids leave: of ids that are not there nothing is
--   written; 'l' is then given unless all jobs are new, with m: the id is not there, g: it is on its way, and before it 'k' and the tick of the shard. Behind that a
--   push to the new shard has ' ' and this tick after the number of values, so that arrivals and fences of the id rise.
-- Error replies: STALE push (a later sequence came first: this one is an echo of a dead connection)
local SKIPPED = 0
-- include: push_token hand_over push_jobs
call('SET', KEYS[16], SEQUENCE .. ' ' .. answer, 'PX', 60000)
return answer
