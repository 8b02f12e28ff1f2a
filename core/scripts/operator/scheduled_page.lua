-- include: prelude scheduled
-- SCHEDULED_PAGE: which scheduled payloads a shard, or one id, has: in the order of deliver_at, then of their pushes. It reads no payload.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 direction: up, down; 3 min, 4 max of deliver_at in microseconds, both included; 5 limit, at most 1,000;
--       6 deliver_at and 7 stamp (8 bytes >d) behind which the page begins, '' and '' where it begins at the bound; 8 id, '' for all
-- Returns {1 where there may be more behind the last entry, else 0; stamp and id, deliver_at, ...}, in the direction asked for
local down, low, high, limit = ARGV[2] == 'down', ARGV[3], ARGV[4], min(1000, tonumber(ARGV[5]))
local after, stamp, id = ARGV[6], ARGV[7], ARGV[8]
local key = id == '' and SCHEDULED or SCHED .. id

-- The number of entries before the one with this deliver_at and stamp; with that one too, where `through`. A stamp is unique in a shard,
-- so it orders the entries of one deliver_at as Redis does, which compares their bytes.
local function count_before(time, number, through)
  local from, to = call('ZCOUNT', key, '-inf', '(' .. time), call('ZCOUNT', key, '-inf', time)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local found = unpack_struct('>d', call('ZRANGE', key, middle, middle)[1])
    if found < number or through and found == number then from = middle + 1 else to = middle end
  end
  return from
end

local from, to = call('ZCOUNT', key, '-inf', '(' .. low), call('ZCOUNT', key, '-inf', high)
if after ~= '' then
  local place = count_before(after, (unpack_struct('>d', stamp)), not down)
  if down then to = min(to, place) else from = max(from, place) end
end

local answer = {to - from > limit and 1 or 0}
if to <= from then return answer end
if down then from = max(from, to - limit) else to = min(to, from + limit) end
local flat = call('ZRANGE', key, from, to - 1, 'WITHSCORES')
for i = 1, #flat, 2 do
  local at = down and #flat - i or i
  answer[i + 1], answer[i + 2] = flat[at] .. id, flat[at + 1]
end
return answer
