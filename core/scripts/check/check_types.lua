-- CHECK_TYPES: are the keys of a shard of the types that they should be, and can its state be read? It stands alone: where
-- they are not, every other script of the shard fails. What is not ours is put aside as misplaced:KIND:MICROSECONDS.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 '1' to repair
-- Returns as check.lua: {'0', or '1' where the scripts cannot look at the shard, keys looked at, {finding, '', detail, '1' if
--   repaired, ...}, {}}
local call, format, sub = redis.call, string.format, string.sub
local KINDS = {'state', 'jobs', 'ready', 'due', 'running', 'next', 'retry', 'dead', 'died', 'parked', 'unproven', 'suspect', 'overrun', 'uniting',
  'claims'}
local TYPES = {state = 'string', jobs = 'hash', ready = 'list', running = 'hash', next = 'hash', dead = 'hash', claims = 'hash'} -- others: zset
local STATE, PREFIX = KEYS[1], sub(KEYS[1], 1, -6)
local generation, repair = tonumber(ARGV[1]), ARGV[2] == '1'
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found, absent, others, closed = {}, false, false, false

local function find(finding, detail, mended)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, '', detail, mended and '1' or '0'
end

local function put_aside(key)
  call('RENAME', key, format('%smisplaced:%s:%.0f', PREFIX, sub(key, #PREFIX + 1), now))
end

for i = 1, #KINDS do
  local kind, wanted = KINDS[i], TYPES[KINDS[i]] or 'zset'
  local there = call('TYPE', PREFIX .. kind).ok
  if there ~= 'none' and there ~= wanted then
    find('type', format('%s is a %s, not a %s', kind, there, wanted), repair)
    if repair then put_aside(PREFIX .. kind) else closed = true end
    if kind == 'state' then absent = true end
  elseif kind == 'state' then
    absent = there == 'none'
  elseif there ~= 'none' and kind ~= 'ready' then
    others = true
  end
end

-- Whole numbers up to 9e15, and a generation, which is negative in a closed shard (close.lua). NaN is not a number.
local function is_state(state)
  if #state < STATE_OWNER then return false end
  local numbers = {struct.unpack('<ddddddddddd', state)}
  numbers[1] = math.abs(numbers[1])
  numbers[12] = struct.unpack('<d', state, STATE_REMOVED + 1)
  numbers[13] = struct.unpack('<d', state, STATE_STALE + 1)
  for i = 1, 13 do
    local number = numbers[i]
    if not (number >= 0 and number <= 9e15 and number % 1 == 0) then return false end
  end
  local delivers = struct.unpack('<d', state, STATE_DELIVERS + 1)
  local ends, asleep = struct.unpack('<dd', state, STATE_ENDS + 1)
  return numbers[1] >= 1 and delivers >= 0 and delivers <= 9e15 and ends >= 0 and ends <= 9e15 and asleep >= 0 and asleep <= 9e15
end

local state = not absent and call('GET', STATE)
if state and not is_state(state) then
  find('state', 'state cannot be read', repair)
  if repair then put_aside(STATE) else closed = true end
  absent = true
elseif state and math.abs(struct.unpack('<d', state)) ~= generation then
  find('generation', format('state is of generation %.0f, the layout of %.0f', struct.unpack('<d', state), generation), false)
  closed = true
elseif absent and others and not found[1] then
  find('state', 'state is missing', repair)
end
if absent and others and repair then
  local in_doubt = call('EXISTS', PREFIX .. 'unproven', PREFIX .. 'suspect') > 0
  -- While ids leave the shard, its state says so; and an id may have come back to jobs behind a scan, which the mark tells (turn.lua).
  local reshard = PREFIX .. 'reshard'
  local text = call('TYPE', reshard).ok == 'hash' and call('HGET', reshard, '') or ''
  local given, old = string.match(text, '^(%d+) %d+ 4 (%d+) ')
  local is_source = tonumber(given) == generation and tonumber(string.match(PREFIX, '/(%d+)}:$')) < tonumber(old)
  local flags = (in_doubt and 6 or 4) + (is_source and FLAG_SOURCE or 0)
  call('ZREM', PREFIX .. 'due', '')
  if is_source then
    -- include apart: raise_mark
  end
  call('SET', STATE, struct.pack(STATE_FORMAT, generation, now, 0, 0, 0, 0, 0, 0, 0, 0,
    call('HLEN', PREFIX .. 'claims'), flags, tonumber(call('ZRANGE', PREFIX .. 'scheduled', 0, 0, 'WITHSCORES')[2]) or 9e15, 0, 0, 0, 0, 0, 0, 0))
end
return {closed and '1' or '0', #KINDS, found, {}}
