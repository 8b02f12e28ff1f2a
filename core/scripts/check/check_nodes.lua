-- CHECK_NODES: is every node that is described one that had a heartbeat, and are both keys of the types that they should be?
-- KEYS: 1 alive zset node -> expiry in milliseconds, 2 info hash node -> description
-- ARGV: 1 '1' to repair
-- Returns as check.lua: {'0', looked at, {finding, node, detail, '1' if repaired, ...}, {}}
local call, repair = redis.call, ARGV[1] == '1'
local found, nodes = {}, {}

local function find(finding, node, detail)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, node, detail, repair and '1' or '0'
end

for i = 1, 2 do
  local there, right = call('TYPE', KEYS[i]).ok, i == 1 and 'zset' or 'hash'
  if there ~= 'none' and there ~= right then
    find('type', '', string.format('%s of the nodes is a %s, not a %s', i == 1 and 'alive' or 'info', there, right))
    if repair then call('DEL', KEYS[i]) end
  end
end
if not found[1] then
  nodes = call('HKEYS', KEYS[2])
  for i = 1, #nodes do
    if not call('ZSCORE', KEYS[1], nodes[i]) then
      find('node', nodes[i], 'is described and has no heartbeat')
      if repair then call('HDEL', KEYS[2], nodes[i]) end
    end
  end
end
return {'0', #nodes, found, {}}
