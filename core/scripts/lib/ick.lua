-- include: ick_keys
-- library: ick - what the scripts of core/scripts/ick do with the keys of a set; each begins with it, and with rights
-- Error replies: those of ick_keys, ERR this set has members and no version, NOPERM (see rights.lua)
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
