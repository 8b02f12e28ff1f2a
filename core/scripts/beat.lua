-- BEAT: renews a node's heartbeat, and with it what it was ordered to do; forgets nodes that are dead, and tells who lives.
-- KEYS: 1 alive zset node -> expiry in milliseconds, 2 info hash node -> description, 3 order string 'quiet' or 'stop'
-- ARGV: 1 node, 2 lease time in milliseconds (0: leave), 3 description, 4 channel that hears of joins and leaves
-- Returns {now in microseconds, order or '', node, description, ...}: the living, this node included
local call = redis.call
local ALIVE, INFO, ORDER = KEYS[1], KEYS[2], KEYS[3]
local node, time, channel = ARGV[1], tonumber(ARGV[2]), ARGV[4]
if #ARGV ~= 4 or not time or time ~= time then return redis.error_reply('ERR wrong arguments') end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local dead = call('ZRANGEBYSCORE', ALIVE, '-inf', string.format('%.0f', now))
local known, order = call('ZSCORE', ALIVE, node), call('GET', ORDER)
call('HLEN', INFO)
call('ZREM', ALIVE, '')
for i = 1, #dead do
  if dead[i] == node then known = nil end
  call('ZREM', ALIVE, dead[i])
  call('HDEL', INFO, dead[i])
end
if time > 0 then
  call('ZADD', ALIVE, string.format('%.0f', now + time), node)
  call('HSET', INFO, node, ARGV[3])
  if order then call('PEXPIRE', ORDER, ARGV[2]) end
  if not known then redis.pcall('PUBLISH', channel, 'join') end -- see owner.lua
else
  call('ZREM', ALIVE, node)
  call('HDEL', INFO, node)
  if order then call('DEL', ORDER) end
  if known then redis.pcall('PUBLISH', channel, 'leave') end
end
local living = call('ZRANGE', ALIVE, 0, -1)
local out = {string.format('%.0f', clock[1] * 1000000 + clock[2]), order or ''}
for i = 1, #living do
  out[2 * i + 1] = living[i]
  out[2 * i + 2] = call('HGET', INFO, living[i]) or ''
end
return out
