-- include: ick_keys
-- CHECK_ICK: do the keys of a two-phase commit set agree? One key, or a slice of it. What the scripts of core/scripts/ick guarantee:
-- a member is in pset or in the cset of the one consumer that `held` names for it, and only then it can be in again; a consumer
-- that holds members has a token and an end of its reservations. One that holds none has both or neither: both between two calls
-- of a reserve that takes back first (ick_reserve.lua).
-- KEYS: 1 to 7 of ick_keys.lua, or all 8 for the part cset
-- ARGV: 1 about, pset, again, held, tokens, ends or cset; 2 cursor; 3 '1' to repair; 4 the consumer, for the part cset
-- Returns as check.lua: {cursor, looked at, {finding, key, detail, '1' if repaired, ...}, {}}
-- A repair forgets no member: in doubt it can be reserved once more.
local part, cursor, repair, consumer = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local places = {about = 1, pset = 2, again = 3, held = 4, tokens = 5, ends = 6, cset = 8}
local place = places[part]
if not place or (place == 8) ~= (#KEYS == 8) or place == 8 and not consumer or not string.find(cursor or '', '^%d+$') or #cursor > 20 then
  return error_reply('ERR wrong arguments')
end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = {}

-- detail may hold %s, for a member or a consumer.
local function find(detail, name, mend)
  local n = #found
  name = string.gsub(sub(name or '', 1, 60), '[^ -~]', '?')
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = 'set', KEYS[place], format(detail, '"' .. name .. '"'), repair and '1' or '0'
  if repair then mend() end
end

local function holds(who, member)
  local key = PREFIX .. 'cset:' .. who
  return call('TYPE', key).ok == 'zset' and (not member or call('ZSCORE', key, member))
end

-- Moves a member, whose score there counts if it is lower.
local function move(member, from, to)
  local score = call('ZSCORE', from, member)
  if score then
    call('ZADD', to, 'LT', score, member)
    call('ZREM', from, member)
  end
  return score
end

-- A token that no reserve has returned: what the consumer has reserved is committed by nobody, and returned by its next reserve.
local function new_token(who)
  local token = format('%.0f', max((tonumber(call('HGET', ABOUT, 'token') or nil) or 0) + 1, now))
  call('HSET', ABOUT, 'token', token)
  call('HSET', TOKENS, who, token)
end

local look = {}

function look.about(field, value)
  if field == 'token' and not string.find(value, '^%d+$') then
    find('the last token is not a number', '', function() call('HSET', ABOUT, 'token', format('%.0f', now)) end)
  end
end

function look.pset(member)
  local who = call('HGET', HELD, member)
  if who and holds(who, member) then
    find('the member %s can be reserved although it is reserved', member, function() move(member, PSET, AGAIN) end)
  end
end

function look.again(member)
  if call('HEXISTS', HELD, member) == 0 then
    find('the member %s waits for the end of a reservation that does not exist', member, function() move(member, AGAIN, PSET) end)
  end
end

function look.held(member, who)
  if holds(who, member) then return end
  find('the member %s is marked as reserved, and its consumer does not hold it', member, function()
    call('HDEL', HELD, member)
    if not move(member, AGAIN, PSET) then call('ZADD', PSET, 'NX', '0', member) end
  end)
end

function look.tokens(who, token)
  if not holds(who) and not call('ZSCORE', ENDS, who) then
    find('the consumer %s has a token, no end of its reservations and no members', who, function() call('HDEL', TOKENS, who) end)
  elseif not string.find(token, '^%d+$') or tonumber(token) > (tonumber(call('HGET', ABOUT, 'token') or nil) or 0) then
    find('the consumer %s has a token that this set has not given', who, function() new_token(who) end)
  end
end

function look.ends(who, ends)
  if not holds(who) and call('HEXISTS', TOKENS, who) == 0 then
    find('the consumer %s has an end of its reservations, no token and no members', who, function() call('ZREM', ENDS, who) end)
  elseif tonumber(ends) > now + 2 * ICK_LONGEST then
    find('the reservations of the consumer %s end later than any reserve_time allows', who, function()
      call('ZADD', ENDS, format('%.0f', now), who)
    end)
  end
end

function look.cset(member)
  local who = call('HGET', HELD, member)
  if who == consumer then return end
  if who and holds(who, member) then
    return find('the member %s is held by two consumers', member, function() call('ZREM', CSET, member) end)
  end
  find('the member %s is reserved and not marked as reserved', member, function()
    call('HSET', HELD, member, consumer)
    move(member, PSET, AGAIN)
  end)
end

-- Of the consumer whose cset this is.
local function look_at_consumer()
  if call('HEXISTS', TOKENS, consumer) == 0 then
    find('the consumer %s holds members without a token', consumer, function() new_token(consumer) end)
  end
  if not call('ZSCORE', ENDS, consumer) then
    find('the reservations of the consumer %s have no end', consumer, function() call('ZADD', ENDS, format('%.0f', now), consumer) end)
  end
end

if repair then call('HDEL', TOKENS, '') end -- first a write that Redis allows at maxmemory
if not version and next(there) then
  find('the set has members and no version', '', function() call('HSET', ABOUT, 'version', ICK_VERSION) end)
end
local of_hash = place == 1 or place == 4 or place == 5
local slice = call(of_hash and 'HSCAN' or 'ZSCAN', KEYS[place], cursor, 'COUNT', 50)
if place == 8 and cursor == '0' and there[8] then look_at_consumer() end
for i = 1, #slice[2], 2 do look[part](slice[2][i], slice[2][i + 1]) end
if repair and there[8] and not holds(consumer) then
  call('HDEL', TOKENS, consumer)
  call('ZREM', ENDS, consumer)
end
return {slice[1], #slice[2] / 2, found, {}}
