-- HEARTBEAT: renews a node's heartbeat, and with it what it was ordered to do; forgets nodes that are dead, and tells who lives.
-- When nobody has renewed a heartbeat for half of the shortest lease, Redis was away (stopped, failed over, paused, its clock
-- stepped), or every node was. Then expired heartbeats say nothing about the nodes: all that are listed live on for the longest
-- lease, and until then nobody may take a shard that names another owner, listed or not (a failover may forget the list).
-- Another absence within that time does not begin it anew, it only adds the time that Redis was away: dead nodes would live for ever
-- where heartbeats are often late.
-- KEYS: 1 alive zset node -> expiry in milliseconds, half of one more when an absence has extended it and the node has not
--       renewed it since; 2 info hash node -> description, 3 order string 'quiet' or 'stop',
--       4 renewed string 'LAST UNTIL GAP': when a heartbeat was last renewed, the end of that time (0: none), and how long
--       nobody had renewed one before it began (-1: not known), all in milliseconds; gone with the last node that leaves, 5 guard:
--       never there (prelude.lua)
-- ARGV: 1 node, 2 lease time in milliseconds (0: leave), 3 description, 4 channel that hears of joins and leaves
-- Returns {now in microseconds, order or '', milliseconds for which nobody may take another owner's shard, GAP,
--   node, description, ...}: the living, this node included
local call, format = redis.call, string.format
local ALIVE, INFO, ORDER, RENEWED, GUARD = unpack(KEYS)
local node, time, channel = ARGV[1], tonumber(ARGV[2]), ARGV[4]
if #ARGV ~= 4 or not GUARD or not time or time ~= time then return redis.error_reply('ERR wrong arguments') end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local listed, known, order = call('ZRANGE', ALIVE, 0, -1, 'WITHSCORES'), call('ZSCORE', ALIVE, node), call('GET', ORDER)
local last, till, gap = string.match(call('GET', RENEWED) or '', '^(%d+) (%d+) (%-?%d+)$')
last, till, gap = tonumber(last), tonumber(till) or 0, tonumber(gap) or 0

-- The lease of a node that has not come back since an absence is not among those that measure the next one. Else the short lease
-- of a node that died would make every pause between the heartbeats of slower ones an absence.
local function was_extended(expiry) return expiry % 1 > 0 end
local info, shortest, longest = {}, time > 0 and time or math.huge, time
for i = 1, #listed, 2 do
  local text = call('HGET', INFO, listed[i]) or ''
  local lease = tonumber(string.match(text, '^[^|]*;lease=(%d+)')) or time
  info[listed[i]] = text
  if lease > 0 then
    longest = math.max(longest, lease)
    if not was_extended(tonumber(listed[i + 1])) then shortest = math.min(shortest, lease) end
  end
end

call('ZREM', ALIVE, '') -- allowed when Redis is full, and opens the script for the writes that follow
if not last or math.abs(now - last) > shortest / 2 then
  -- Less the quarter of a lease that lies between two heartbeats in any case.
  local passed = last and now > last and now - last - math.floor(shortest / 4)
  for i = 1, #listed, 2 do
    local expiry = tonumber(listed[i + 1])
    expiry = passed and was_extended(expiry) and expiry + passed or now + longest + 0.5
    call('ZADD', ALIVE, format('%.1f', expiry), listed[i])
  end
  till = passed and till > last and till + passed or now + longest
  gap = last and now - last or -1
elseif till <= now then
  till, gap = 0, 0
end
local dead = call('ZRANGEBYSCORE', ALIVE, '-inf', format('%.0f', now))
for i = 1, #dead do
  if dead[i] == node then known = nil end
  call('ZREM', ALIVE, dead[i])
  call('HDEL', INFO, dead[i])
end
if time > 0 then
  info[node] = ARGV[3]
  call('ZADD', ALIVE, format('%.0f', now + time), node)
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
if living[1] then
  call('SET', RENEWED, format('%.0f %.0f %.0f', now, till, gap))
else
  call('DEL', RENEWED)
end
local out = {format('%.0f', clock[1] * 1000000 + clock[2]), order or '', format('%.0f', math.max(till - now, 0)), format('%.0f', gap)}
for i = 1, #living do
  out[2 * i + 3] = living[i]
  out[2 * i + 4] = info[living[i]] or ''
end
return out
