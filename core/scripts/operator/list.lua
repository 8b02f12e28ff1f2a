-- include: prelude keys ready
-- LIST: a page of one index, by its number. The reader merges the indexes and the shards.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 index: ready, due, unproven, suspect, retry, died, parked, moving; 3 direction: up, down;
--       4 min, 5 max (as ZRANGEBYSCORE takes them; ready ignores them), 6 first place (ready only), 7 limit
-- Returns {next place (-1 at the end), id, number, ...}. The ready list is nearly sorted: its slices are read until
--   one adds nothing; its entries may be stale or double, so the records are asked.
local index, down, low, high = ARGV[2], ARGV[3] == 'down', ARGV[4], ARGV[5]
local from, limit = tonumber(ARGV[6]), tonumber(ARGV[7])
local answer = {-1}

if index ~= 'ready' then
  local key = key_of(index)
  local flat = down and call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', 'LIMIT', 0, limit)
    or call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #flat do answer[i + 1] = flat[i] end
  return answer
end

if list_ready(answer, down, from, limit) == limit then answer[1] = from + limit end
return answer
