-- library: ick - the keys of one two-phase commit set (an Ick); every script of core/scripts/ick begins with it, and with rights
--
-- KEYS, all with the hash tag of the name (docs/internals/layout.md):
--    1 about   hash  'version' -> ICK_VERSION, 'token' -> the last token that was given
--    2 pset    zset  member -> score: members that can be reserved
--    3 again   zset  member -> score: members that were added again while they are reserved; they are not in pset
--    4 held    hash  member -> consumer that has reserved it; these are not in pset
--    5 tokens  hash  consumer -> token of its reservations
--    6 ends    zset  consumer -> microseconds from which another consumer may take its reservations
--    7 cset:CONSUMER  zset  member -> score: what the caller has reserved; only where the caller is a consumer
-- Error replies: ERR ... (a key is of another type, or the set is of another version), NOPERM (see rights.lua)
local call, error_reply = redis.call, redis.error_reply
local sub, format, max, min, unpack = string.sub, string.format, math.max, math.min, unpack
local ABOUT, PSET, AGAIN, HELD, TOKENS, ENDS, CSET = unpack(KEYS)
local PREFIX = sub(ABOUT, 1, -6)

local there = {}
for i = 1, #KEYS do
  local found, wanted = call('TYPE', KEYS[i]).ok, (i == 1 or i == 4 or i == 5) and 'hash' or 'zset'
  if found ~= 'none' then
    if found ~= wanted then
      return error_reply(format('ERR the key %s of this set is a %s, not a %s', i < 7 and sub(KEYS[i], #PREFIX + 1) or 'cset', found, wanted))
    end
    there[i] = true
  end
end

local version = there[1] and call('HGET', ABOUT, 'version')
if version and version ~= ICK_VERSION then return error_reply('ERR this set is of a version that is not known') end
if not version then
  if next(there) then return error_reply('ERR this set has members and no version') end
  local forbidden = missing_commands(ABOUT)
  if forbidden ~= '' then
    return error_reply('NOPERM this user may write, but not use all commands that scripts need; missing: ' .. forbidden)
  end
end

-- The smallest or largest score of a sorted set, or nil.
local function score_at(key, rank) return tonumber(call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] or nil) end

-- The members in a list of member, score, ...; the same as score, member, ...; and as member, consumer, ...
local function split(list, consumer)
  local members, pairs_of, holders = {}, {}, {}
  for i = 1, #list, 2 do
    members[#members + 1] = list[i]
    pairs_of[i], pairs_of[i + 1] = list[i + 1], list[i]
    holders[i], holders[i + 1] = list[i], consumer
  end
  return members, pairs_of, holders
end

-- A consumer that holds nothing has no token: what it commits later is of no reservation.
local function forget_if_empty(consumer, cset)
  if call('EXISTS', cset) == 1 then return end
  call('HDEL', TOKENS, consumer)
  call('ZREM', ENDS, consumer)
end

-- Ends those of the reservations of the caller that the list names, if the token is still the caller's. What was added again
-- meanwhile can be reserved again. Returns how many were ended.
local function end_reservations(consumer, token, members)
  if not members[1] or call('HGET', TOKENS, consumer) ~= token then return 0 end
  local scores, mine, seen = call('ZMSCORE', CSET, unpack(members)), {}, {}
  for i = 1, #members do
    local member = members[i]
    if scores[i] and not seen[member] then
      seen[member] = true
      mine[#mine + 1] = member
    end
  end
  if not mine[1] then return 0 end
  local again, back = call('ZMSCORE', AGAIN, unpack(mine)), {}
  for i = 1, #mine do
    if again[i] then
      back[#back + 1] = again[i]
      back[#back + 1] = mine[i]
    end
  end
  call('ZREM', CSET, unpack(mine))
  call('HDEL', HELD, unpack(mine))
  if back[1] then
    call('ZADD', PSET, 'LT', unpack(back))
    call('ZREM', AGAIN, unpack(mine))
  end
  forget_if_empty(consumer, CSET)
  return #mine
end
