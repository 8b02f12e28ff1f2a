-- include: prelude change flags owner notices told_id
-- CHECK_NOTICES: does each notice for retries_exhausted have a teller, and each teller a notice? They are compared as wholes,
-- where they are few enough to be read in one call. And the ids of notices, a slice a call.
-- KEYS: the shard's
-- ARGV: as check.lua's: 1 generation, 2 part: notices or tellers, the key that was found; told: ids, 3 cursor of told, 4 '1' to repair
-- Returns as check.lua, with the ids of told
local part, repair = ARGV[2], ARGV[4] == '1'
local MANY_NOTICES = 5000
if part == 'told' then
  local present = {}
  if call('TYPE', TELLERS).ok ~= 'zset' or call('TYPE', NOTICES).ok ~= 'hash' then return {'0', 0, {}, {}, present} end
  local entries, ids, following = told_ids(ARGV[3])
  for i = 1, #entries do
    if ids[i] then present[#present + 1] = ids[i] end
  end
  return {following, 0, {}, {}, present}
end
if part == 'notices' and call('EXISTS', TELLERS) == 1 then return {'0', 0, {}, {}} end -- the other key's part looks at both

local function finding(kind, detail) return {'0', 1, {kind, '', detail, repair and '1' or '0'}, {}} end

for key, kind in pairs({[NOTICES] = 'hash', [TELLERS] = 'zset'}) do
  local there, name = call('TYPE', key).ok, sub(key, #PREFIX + 1)
  if there ~= 'none' and there ~= kind then
    if repair then call('RENAME', key, format('%smisplaced:%s:%.0f', PREFIX, name, now)) end
    return finding('type', format('%s is a %s, not a %s', name, there, kind))
  end
end
local looked = call('HLEN', NOTICES) + call('ZCARD', TELLERS)
if looked > MANY_NOTICES then return {'0', looked, {}, {}} end

local function is_number(field) return #field == 8 end
local function is_teller(entry) return #entry > 8 and byte(entry, -9) == 0 end
-- The payloads are the reader's to judge.
local function is_notice(value) return #value >= 8 and #value - 8 >= unpack_struct('<I4', value) end

local numbers, told, strange, astray = {}, {}, {}, {}
local fields, entries = call('HKEYS', NOTICES), call('ZRANGE', TELLERS, 0, -1)
for i = 1, #fields do
  if is_number(fields[i]) then numbers[fields[i]] = true else strange[#strange + 1] = fields[i] end
end
for i = 1, #entries do
  local number = sub(entries[i], -8)
  if is_teller(entries[i]) and numbers[number] then told[number] = true else astray[#astray + 1] = entries[i] end
end
local wrong = strange[1] or astray[1] or is(FLAG_NOTICED) ~= (#entries > 0)
for number in pairs(numbers) do wrong = wrong or not told[number] end
if not wrong then return {'0', looked, {}, {}} end

-- No teller can name it: a notice gets a number, and anything else, which no hook could be told, is put aside.
local function renumber(field)
  local value = call('HGET', NOTICES, field)
  if is_notice(value) then hand_over('', value) else call('HSET', format('%smisplaced:notices:%.0f', PREFIX, now), field, value) end
  call('HDEL', NOTICES, field)
end

if repair then
  open_for_writing()
  for number in pairs(numbers) do
    if not told[number] then call('ZADD', TELLERS, 0, teller('', number)) end
  end
  for i = 1, #astray do call('ZREM', TELLERS, astray[i]) end
  for i = 1, #strange do renumber(strange[i]) end
  flag_as(FLAG_NOTICED, call('ZCARD', TELLERS) > 0)
  save()
  tell_owner()
end
return finding('notice', 'notices for retries_exhausted and who tells them do not agree')
