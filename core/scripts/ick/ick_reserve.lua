-- include: rights ick
-- ICK_RESERVE: ends reservations of the caller (ickexchange), then reserves members for it, those with the lowest scores first,
-- until it holds n, and lists the n lowest of what it holds. A call moves and lists at most ICK_SLICE members each, and fewer
-- large ones (ICK_SLICE_BYTES).
-- KEYS: those of ick_keys.lua
-- ARGV: 1 consumer, 2 '' in the first call, later the token that the first call gave, 3 n, 4 how many members were listed,
--       5 reserve_time in microseconds, 6 '1' (backwash): what the caller holds goes back first, 7 token of the reservations to
--       end, 8.. their members, at most ICK_SLICE
-- Returns {token of what the caller holds, '' where it holds nothing or n is 0; '0' the list is whole, '1' call again without
-- backwash, '2' call again; how many reservations were ended; score (8 bytes, <d), member, ...}
-- If another process has reserved as the same consumer between two calls, the later calls only list what the consumer holds: it
-- belongs to the token of that process, and a commit under this token ends nothing.
local consumer, token, n, from, time, backwash, ending = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7]
if #KEYS ~= 8 or #ARGV < 7 or #ARGV > 7 + ICK_SLICE or consumer == '' or not (n and n >= 0 and n <= 9e15 and n % 1 == 0) or
  not (from and from >= 0 and from <= 9e15 and from % 1 == 0) or not (time and time >= 0 and time <= 9e15) then
  return error_reply('ERR wrong arguments')
end
local begins = token == ''
local mine = begins or call('HGET', TOKENS, consumer) == token
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
if mine and n > 0 and call('ZCARD', ENDS) >= ICK_CONSUMERS and not call('ZSCORE', ENDS, consumer) and call('ZCOUNT', ENDS, '-inf', format('%.0f', now)) == 0 then
  return error_reply(format('ERR %d consumers have reserved members of this set, and no more can', ICK_CONSUMERS))
end

-- Consumers whose reservations may be taken.
local over = mine and from == 0 and call('ZRANGEBYSCORE', ENDS, '-inf', format('%.0f', now), 'LIMIT', 0, 50) or {}
for i = 1, #over do
  local found = call('TYPE', PREFIX .. 'cset:' .. over[i]).ok
  if found ~= 'zset' and found ~= 'none' then return error_reply(format('ERR the key cset of this set is a %s, not a zset', found)) end
end

call('HDEL', TOKENS, '') -- first a write that Redis allows at maxmemory
if not version then call('HSET', ABOUT, 'version', ICK_VERSION) end
local ended = end_reservations(consumer, ending, {unpack(ARGV, 8)})
if n == 0 and not backwash then return {'', '0', ended} end

local left = ICK_SLICE -- members that this call may still move
local room = ICK_SLICE_BYTES -- bytes of members after which it moves no more

-- At most `count` members from rank `first` on, as member, score, ...; fewer, but one ICK_PART at least, if there is no room for
-- more. Takes their bytes from `room`.
local function lowest(key, first, count)
  local list, last = {}, first + count - 1
  while first <= last and room > 0 do
    local part = call('ZRANGE', key, first, min(first + ICK_PART - 1, last), 'WITHSCORES')
    for i = 1, #part, 2 do
      room = room - #part[i]
      list[#list + 1] = part[i]
      list[#list + 1] = part[i + 1]
    end
    first = #part == 2 * ICK_PART and first + ICK_PART or last + 1
  end
  return list
end

-- Takes reservations of a consumer back. What was added again unites with its reservation by the lower score.
local function take_back(whose, cset)
  local members, back = split(lowest(cset, 0, left))
  if members[1] then
    local again = call('ZMSCORE', AGAIN, unpack(members))
    for i = 1, #members do
      if again[i] then
        back[#back + 1] = again[i]
        back[#back + 1] = members[i]
      end
    end
    call('ZREM', cset, unpack(members))
    call('ZREM', AGAIN, unpack(members))
    call('HDEL', HELD, unpack(members))
    call('ZADD', PSET, 'LT', unpack(back))
    left = room > 0 and left - #members or 0
  end
  forget_if_empty(whose, cset)
end

if begins then
  token = format('%.0f', max((tonumber(call('HGET', ABOUT, 'token') or nil) or 0) + 1, now))
  call('HSET', ABOUT, 'token', token)
end

-- Returns true if there is nothing more to take back.
local function take_back_all()
  for i = 1, #over do
    if left == 0 then return false end
    if over[i] ~= consumer then take_back(over[i], PREFIX .. 'cset:' .. over[i]) end
  end
  if backwash and left > 0 then take_back(consumer, CSET) end
  return left > 0 and not over[50]
end

local again, have = '0', 0
if from > 0 or not mine then
  have = call('ZCARD', CSET)
elseif not take_back_all() then
  again = '2'
else
  have = call('ZCARD', CSET)
  local members, scored, holders = split(have < n and lowest(PSET, 0, min(n - have, left)) or {}, consumer)
  if members[1] then
    call('ZREM', PSET, unpack(members))
    call('ZADD', CSET, unpack(scored))
    call('HSET', HELD, unpack(holders))
    have = have + #members
  end
  if have < n and call('EXISTS', PSET) == 1 then again = '1' end
end

local answer = {token, again, ended}
if again == '0' then
  room = ICK_SLICE_BYTES
  local list = lowest(CSET, from, min(ICK_SLICE, n - from))
  for i = 1, #list, 2 do
    answer[#answer + 1] = struct.pack('<d', tonumber(list[i + 1]))
    answer[#answer + 1] = list[i]
  end
  if list[1] and from + #list / 2 < min(n, have) then answer[2] = '1' end
  if have == 0 then
    if mine then forget_if_empty(consumer, CSET) end -- else the token is that of a process that may not have ended its reserve
    answer[1] = ''
    return answer
  end
end
if mine then
  call('HSET', TOKENS, consumer, token)
  call('ZADD', ENDS, format('%.0f', now + time), consumer)
end
return answer
