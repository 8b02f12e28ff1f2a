-- ORDER: asks a living node to claim no more, or to stop; its next heartbeat tells it. An order ends with the node's heartbeat.
-- KEYS: as heartbeat.lua's, of the node that is asked
-- ARGV: 1 node, 2 'quiet' or 'stop', which the other does not take back, 3 channel that wakes the node
-- Returns 1, or 0 when no such node lives
local call = redis.call
local ALIVE, ORDER, order = KEYS[1], KEYS[3], ARGV[2]
if #ARGV ~= 3 or (order ~= 'quiet' and order ~= 'stop') then return redis.error_reply('ERR wrong arguments') end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local expiry = call('ZSCORE', ALIVE, ARGV[1])
if not expiry or tonumber(expiry) <= now then return 0 end
local given = call('GET', ORDER)
call('ZREM', ALIVE, '')
if given == 'stop' then order = given end
call('SET', ORDER, order, 'PX', string.format('%.0f', expiry - now))
redis.pcall('PUBLISH', ARGV[3], 'order') -- see owner.lua
return 1
