-- include: prelude change
-- CHECK_EVENTS: do the histories of ids end, and does `traced` name them? events.lua describes both kinds of keys.
-- KEYS: the shard's
-- ARGV: as check.lua's: 1 generation, 2 part, 3 cursor ('0' at first), 4 '1' to repair, 5 id
--   parts: traced: a slice of it; events: that key of the id
-- Returns as check.lua
local part, cursor, repair, id = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local TRACED, KEPT = PREFIX .. 'traced', 604800000
local found, fixes, looked = {}, {}, 1

local function find(finding, whose, detail, fix)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, whose, detail, repair and '1' or '0'
  if repair then fixes[#fixes + 1] = fix end
end

-- A key of another type is put aside; one that would stay for ever gets its seven days.
local function is_sound(key, kind)
  local there, name = call('TYPE', key).ok, sub(key, #PREFIX + 1)
  if there ~= 'none' and there ~= kind then
    find('type', id or '', format('%s is a %s, not a %s', name, there, kind), function()
      call('RENAME', key, format('%smisplaced:%s:%.0f', PREFIX, name, now))
    end)
    return false
  end
  if call('PTTL', key) == -1 then
    find('expiry', id or '', name .. ' would stay for ever', function() call('PEXPIRE', key, KEPT) end)
  end
  return there ~= 'none'
end

-- An entry whose list is gone is no finding: lists end by themselves, and the entries of old ones are removed as new ones come.
local function check_traced()
  looked = 0
  if not is_sound(TRACED, 'zset') then return end
  local page = call('ZSCAN', TRACED, cursor, 'COUNT', 50)
  cursor, looked = page[1], #page[2] / 2
end

local function check_list()
  local key = PREFIX .. 'events:' .. id
  if not is_sound(key, 'list') then return end
  local there = call('TYPE', TRACED).ok
  if there ~= 'zset' and there ~= 'none' or there == 'zset' and call('ZSCORE', TRACED, id) then return end
  find('index', id, 'missing in traced', function()
    call('ZADD', TRACED, format('%.0f', now), id)
    call('PEXPIRE', TRACED, KEPT)
  end)
end

if part == 'traced' then check_traced() else check_list() end
if fixes[1] then
  open_for_writing()
  for i = 1, #fixes do fixes[i]() end
end
return {part == 'traced' and cursor or '0', looked, found, {}}
