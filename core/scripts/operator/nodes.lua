-- NODES: the nodes that heartbeat.lua knows.
-- KEYS: 1 alive zset node -> expiry in milliseconds, 2 info hash node -> description
-- Returns {now in milliseconds, node, expiry, description, ...}
local clock = redis.call('TIME')
local alive = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local out = {string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))}
for i = 1, #alive, 2 do
  out[#out + 1] = alive[i]
  out[#out + 1] = string.format('%.0f', math.floor(alive[i + 1]))
  out[#out + 1] = redis.call('HGET', KEYS[2], alive[i]) or ''
end
return out
