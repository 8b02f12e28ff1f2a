-- SET_LAYOUT: replaces the layout of a queue, for who begins or ends a move, or has heard of a later layout from a shard.
-- KEYS: as layout.lua's: 1 layout, 2 settings, 3 deleted, 4 history, 5 run times, 6 guard
-- ARGV: 1 the layout that is to be replaced
--       2 what follows the generation in the new one: 'shards 4 old most', 'shards 4 old most paused' or 'shards 3'
--    or 1 ''
--       2 a whole layout, which replaces one of a smaller generation: a failover has forgotten it
-- Returns {1, or 0: the layout is another one, or not smaller; the layout that the queue has now, '' if there is no such queue}
-- A generation is given once: it is the time in microseconds, or one more than the last where that is greater. With one more alone, a layout
-- that a failover has forgotten and the next one would have the same. A deletion gives a generation before the layout has it.
local call = redis.call
local expected, text = ARGV[1], ARGV[2]
local layout = call('GET', KEYS[1]) or ''
local clock = call('TIME')
local function generation_of(words) return tonumber(string.match(words, '^(%d+) %d+ %d')) end
local deleted = tonumber(string.match(call('GET', KEYS[3]) or '', '^%d+')) or 0
if expected == '' then
  local given, last = generation_of(text), generation_of(layout) or deleted
  if not given or not (string.match(text, '^%d+ %d+ 3$') or string.match(text, '^%d+ %d+ 4 %d+ %d+$') or string.match(text, '^%d+ %d+ 4 %d+ %d+ paused$')) then return redis.error_reply('ERR wrong layout') end
  if given <= last then return {0, layout} end
else
  if not (string.match(text, '^%d+ 3$') or string.match(text, '^%d+ 4 %d+ %d+$') or string.match(text, '^%d+ 4 %d+ %d+ paused$')) then return redis.error_reply('ERR wrong layout') end
  if layout ~= expected then return {0, layout} end
  local following = math.max(generation_of(layout) + 1, deleted + 1, clock[1] * 1000000 + clock[2])
  text = string.format('%.0f ', following) .. text
end
-- First a write that Redis allows at maxmemory: a move must be able to end then.
call('HDEL', KEYS[2], '')
call('SET', KEYS[1], text)
return {1, text}
