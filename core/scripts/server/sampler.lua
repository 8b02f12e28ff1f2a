-- SAMPLER: who measures all queues for their histories: one process at a time, a node or a dashboard. It asks again with each round.
-- KEYS: 1 sampler string 'UNTIL LAST PROCESS': the end of its lease, and when a round was begun last, in microseconds; gone an hour
--         after the last round
-- ARGV: 1 process
--       2 its lease in milliseconds
--       3 1: it goes on with a round, and LAST stays; else 0
-- Returns {1 if this process is to measure now, else 0; now; when the round before this one was begun, 0: not known}: microseconds
local call = redis.call
local process, time = ARGV[1], tonumber(ARGV[2])
if #ARGV ~= 3 or not time or time ~= time then return redis.error_reply('ERR wrong arguments') end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local before, last, holder = string.match(call('GET', KEYS[1]) or '', '^(%d+) (%d+) (.*)$')
before, last = tonumber(before) or 0, tonumber(last) or 0
local whole = string.format('%.0f', now)
-- A lease that ends later than any lease could was written before Redis' clock went back.
if holder and holder ~= process and now < before and before - now <= time * 1000 then return {0, whole, '0'} end
call('PEXPIRE', KEYS[1], 3600000) -- a write that needs no memory, after which a full Redis lets the script write on
call('SET', KEYS[1], string.format('%.0f %.0f %s', now + time * 1000, ARGV[3] == '1' and last or now, process), 'PX', 3600000)
return {1, whole, string.format('%.0f', last <= now and last or 0)}
