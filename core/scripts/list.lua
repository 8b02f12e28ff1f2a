-- include: prelude runs
-- LIST: a page of one index, by its number. The reader merges the indexes and the shards.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 index: ready, due, unproven, suspect, retry, died, parked; 3 direction: up, down;
--       4 min, 5 max (as ZRANGEBYSCORE takes them; ready ignores them), 6 first place (ready only), 7 limit
-- Returns {next place (-1 at the end), id, number, ...}. The ready list is nearly sorted: its slices are read until
--   one adds nothing; its entries may be stale or double, so the records are asked.
local index, down, low, high = ARGV[2], ARGV[3] == 'down', ARGV[4], ARGV[5]
local from, limit = tonumber(ARGV[6]), tonumber(ARGV[7])
local answer = {-1}

local function add(id, number)
  answer[#answer + 1] = id
  answer[#answer + 1] = number
end

if index ~= 'ready' then
  local key = ({due = DUE, unproven = UNPROVEN, suspect = SUSPECT, retry = RETRY, died = DIED, parked = PARKED})[index]
  local flat = down and call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', 'LIMIT', 0, limit)
    or call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #flat, 2 do add(flat[i], flat[i + 1]) end
  return answer
end

local ids = down and call('LRANGE', READY, -from - limit, -from - 1) or call('LRANGE', READY, from, from + limit - 1)
if not ids[1] then return answer end
if #ids == limit then answer[1] = from + limit end
local records, runs = call('HMGET', JOBS, unpack(ids)), runs_of(ids)
for i = 1, #ids do
  local record = records[i]
  if record and not runs[i] and byte(record) % 4 == 0 then add(ids[i], format('%.0f', unpack_struct('<d', record, 2))) end
end
return answer
