-- HISTORY: adds a sample of a queue to its history: its counters, which never fall, and the lag. What came since the sample before
-- is the difference of the counters, so it does not matter who takes samples, or that a sample is sent twice.
-- KEYS: 1 layout (of a queue that is deleted nothing is written), 2 history string: the last sample as time in microseconds <d,
--         processed <d, failed <d, pushed <d; then three rings of steps, 360 of 10 s, 288 of 300 s, 168 of 3600 s; the step with
--         the number n (of its length since 1970) stands at the place n modulo the ring's size, as n <I4, then what came in it:
--         processed <I4, failed <I4, pushed <I4, and the largest lag in seconds <f. Gone 8 days after the last sample
-- ARGV: 1 time of the sample, 2 processed, 3 failed, 4 pushed, 5 lag in microseconds, 6 since when the queue would have been
--         seen had it been there, in microseconds (0: not known): its counters were 0 then, when there is no sample before this
-- Returns 1; 0: nothing was written, for there is no such queue, or a later sample.
local call = redis.call
local LAYOUT, HISTORY = KEYS[1], KEYS[2]
local time, lag, since = tonumber(ARGV[1]), tonumber(ARGV[5]), tonumber(ARGV[6])
local counters = {tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])}
for i = 1, 6 do
  local number = tonumber(ARGV[i])
  if not HISTORY or not number or not (number >= 0 and number <= 9e15) then return redis.error_reply('ERR wrong arguments') end
end
if call('EXISTS', LAYOUT) == 0 then return 0 end

-- include: steps
return add_sample(HISTORY, time, counters, lag, since)
