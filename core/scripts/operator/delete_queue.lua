-- DELETE_QUEUE: the first and the last step of the deletion of a queue; between them close.lua and wipe.lua go over its shards.
-- KEYS: 1 layout, 2 settings, 3 deleted string 'generation shards until', 4 history, 5 run times, 6 guard: never there (prelude.lua)
-- ARGV: 1 generation of the layout
--       2 'begin' (and again while the shards are wiped, which may take long), 'keep' (the queue stays, with the next generation)
--         or 'delete'
-- 'deleted' stays for ever: the generation from which a new queue of this name goes on, the most shards that it ever had, and
-- the second until which a deletion is under way (0: none is); later than that, layout.lua lets the queue go on.
-- Returns {next generation, the most shards}; {}: the layout is gone or of another generation, so nothing is done
local PATIENCE = 30 -- seconds: longer than a step of a deletion takes; pushes wait for the layout meanwhile, at most their push_timeout
local layout, deleted = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[3])
redis.call('HLEN', KEYS[2])
redis.call('GETRANGE', KEYS[4], 0, 0)
redis.call('HLEN', KEYS[5])
local generation, shards, rest
if layout then generation, shards, rest = string.match(layout, '^(%d+) (%d+)(.*)') end
if not generation and ARGV[2] == 'delete' and deleted then -- sent a second time: the answer of the first was lost
  local went, had = string.match(deleted, '^(%d+) (%d+)')
  if tonumber(went) == ARGV[1] + 1 then return {went, had} end
end
if not generation or generation ~= ARGV[1] then return {} end
local most = math.max(tonumber(shards), tonumber(string.match(rest, '^ 4 %d+ (%d+)$')) or 0, deleted and tonumber(string.match(deleted, '^%d+ (%d+)')) or 0)
local following = string.format('%.0f', generation + 1)
local till = ARGV[2] == 'begin' and redis.call('TIME')[1] + PATIENCE or 0

redis.call('HDEL', KEYS[2], '') -- a first write that Redis allows at maxmemory
redis.call('SET', KEYS[3], string.format('%s %.0f %.0f', following, most, till))
if ARGV[2] == 'delete' then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[4], KEYS[5])
elseif ARGV[2] == 'keep' then
  redis.call('SET', KEYS[1], following .. ' ' .. shards .. rest)
end
return {following, string.format('%.0f', most)}
