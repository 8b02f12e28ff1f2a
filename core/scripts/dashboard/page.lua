-- include: prelude keys ready
-- PAGE: a page of one index behind a known entry, by its number, then its id; found by halving, however far it is.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 index: ready, due, unproven, suspect, retry, died, parked, moving; 3 direction: up, down; 4 min, 5 max (as
--       ZRANGEBYSCORE takes them), 6 first place in the ready list, or '' to find it, 7 limit, 8 number, 9 id of that entry
-- Returns {next place (-1 at the end), id, number, ...} as list.lua does. Of the ready list some entries before the one may come.
local index, down, low, high = ARGV[2], ARGV[3] == 'down', tonumber(ARGV[4]), tonumber(ARGV[5])
local limit, number, id = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local answer = {-1}
local MARGIN = 100

-- Does text a come before text b, byte by byte, as in a sorted set? Lua's `<` asks strcoll, and Redis takes over the collation of
-- the locale that it was started in: 'a' < 'B' there, and the halving ends at a wrong place.
local function comes_before(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- The first place from `from` to `to` of which `is_behind` is true, or `to`.
local function halve(from, to, is_behind)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if is_behind(middle) then to = middle else from = middle + 1 end
  end
  return from
end

if index ~= 'ready' then
  local key = key_of(index)
  local text = format('%.0f', number)
  local from, to = call('ZCOUNT', key, '-inf', '(' .. text), call('ZCOUNT', key, '-inf', text)
  local flat
  if down then
    local place = halve(from, to, function(at) return not comes_before(call('ZRANGE', key, at, at)[1], id) end)
    flat = place > 0 and call('ZRANGE', key, max(0, place - limit), place - 1, 'WITHSCORES') or {}
  else
    local place = halve(from, to, function(at) return comes_before(id, call('ZRANGE', key, at, at)[1]) end)
    flat = call('ZRANGE', key, place, place + limit - 1, 'WITHSCORES')
  end
  for i = 1, #flat, 2 do
    local score = tonumber(flat[i + 1])
    if score >= low and score <= high then
      answer[#answer + 1] = flat[i]
      answer[#answer + 1] = flat[i + 1]
    end
  end
  return answer
end

-- The due time of the first true entry at or behind a place; entries may be stale.
local length = call('LLEN', READY)
local function due_at(at)
  for size = 2, 20, 18 do
    local ids = call('LRANGE', READY, at, at + size - 1)
    local records = ids[1] and call('HMGET', JOBS, unpack(ids)) or ids
    for i = 1, #records do
      if records[i] and byte(records[i]) % RECORD_PLACES == PLACE_READY then return (unpack_struct('<d', records[i], RECORD_DUE + 1)) end
    end
  end
  return FOREVER
end

local from = tonumber(ARGV[6])
if not from then
  local place = halve(0, length, function(at) return due_at(at) >= number end)
  if down then from = max(0, length - place - MARGIN) else from = max(0, place - MARGIN) end
end
list_ready(answer, down, from, limit)
if from + limit < length then answer[1] = from + limit end
return answer
