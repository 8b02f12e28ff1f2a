-- include: rights
-- LAYOUT: the number of shards of a queue, its generation and its settings; creates them when the queue is new.
-- KEYS: 1 layout string 'generation shards schema', 2 settings hash name -> value, 3 deleted string 'generation shards until'
--       (delete_queue.lua), 4 history, 5 run times (unused), 6 guard (prelude.lua)
-- ARGV: 1 'look' writes nothing, 'keep' creates the queue and writes only settings that are missing, 'set' writes all of them,
--       2 generation that a shard has refused, else 0, 3 shards if the queue is new, 4.. name, value of settings
-- Returns {'generation shards schema', name, value, ...} with the settings as they were before this call; {''}: no such queue
-- Error replies: NOPERM ... (an ACL user who could begin a script and not end it: see rights.lua). But for 'look', a user who
--   may not write is refused as by a write, also where there is nothing to write: so a server of such a user does not start
local forbidden = missing_commands(KEYS[1])
if forbidden ~= '' then
  return redis.error_reply('NOPERM this user may write, but not use all commands that scripts need; missing: ' .. forbidden)
end
local MODE, REFUSED = ARGV[1], tonumber(ARGV[2])
local layout, settings, deleted = redis.call('GET', KEYS[1]), redis.call('HGETALL', KEYS[2]), redis.call('GET', KEYS[3])
if not layout and (MODE == 'look' or ARGV[3] == '0') then return {''} end
if MODE == 'look' and REFUSED == 0 then return {layout, unpack(settings)} end

-- Does the ACL refuse the write that is tried first? Whatever else keeps Redis from writing may pass, and a server waits for that.
local function may_not_write()
  local tried = redis.pcall('HDEL', KEYS[2], '')
  local said = type(tried) == 'table' and tried.err or ''
  return string.find(said, 'NOPERM') or string.find(said, "user executing the script can't", 1, true) or string.find(said, 'ACL failure')
end

local known, missing = {}, {}
for i = 1, #settings, 2 do known[settings[i]] = settings[i + 1] end
for i = 4, #ARGV, 2 do
  local value = known[ARGV[i]]
  if value == nil or (MODE == 'set' and value ~= ARGV[i + 1]) then
    missing[#missing + 1], missing[#missing + 2] = ARGV[i], ARGV[i + 1]
  end
end

-- First a write that Redis allows at maxmemory: a server must be able to start then, to make room. A new queue may be refused.
if layout and (missing[1] or REFUSED > 0 or MODE ~= 'look' and may_not_write()) then redis.call('HDEL', KEYS[2], '') end
if not layout then
  local generation = deleted and string.match(deleted, '^%d+') or '1'
  layout = generation .. ' ' .. ARGV[3] .. ' 3'
  redis.call('SET', KEYS[1], layout)
elseif deleted and REFUSED > 0 then
  -- The shards are closed for a deletion that did not end (its process died, say): once its time is over, the queue goes on
  -- under the generation that the shards have.
  local generation, _, to = string.match(deleted, '^(%d+) (%d+) (%d+)')
  local old, rest = string.match(layout, '^(%d+)( .*)')
  if tonumber(old) == REFUSED and tonumber(generation) == REFUSED + 1 and tonumber(redis.call('TIME')[1]) > tonumber(to) then
    layout = generation .. rest
    redis.call('SET', KEYS[1], layout)
  end
end
if missing[1] then redis.call('HSET', KEYS[2], unpack(missing)) end
return {layout, unpack(settings)}
