-- include: prelude change
-- CHECK_OUTBOXES: are the keys of outboxes (lib/outboxes.lua) of the right types, and does `outboxes` name them? With repair, mends them. And
-- the ids of the numbers, a slice a call.
-- KEYS: the shard's
-- ARGV: as check.lua's: 1 generation, 2 part, 3 cursor ('0' at first), 4 '1' to repair, 5 name of an outbox
--   parts: outboxes: ids of numbers; outbox: the key of the outbox of this name
-- Returns as check.lua, with the ids of outboxes
local part, cursor, repair, id = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local present = {}
-- include: finding outboxes

-- An earlier version kept a string, which push_outbox.lua replaces.
local function check_outbox()
  local there = call('TYPE', OUTBOX .. id).ok
  if there == 'none' or there == 'string' or not is_of(OUTBOX .. id, 'zset') then return end
  if call('HEXISTS', OUTBOXES, id) == 1 then return end
  find('index', id, 'missing in outboxes', function() call('HSET', OUTBOXES, id, '0') end)
end

local function list_ids()
  local name = call('HKEYS', OUTBOXES)
  for i = 1, #name do
    if call('TYPE', OUTBOX .. name[i]).ok == 'string' then return '0' end
  end
  local _, members, following = slice_of_outboxes(cursor)
  for i = 1, #members do present[i] = sub(members[i], 9) end
  return following
end

local following = '0'
if is_of(OUTBOXES, 'hash') then
  if part == 'outbox' then check_outbox() else following = list_ids() end
end
if fixes[1] then
  open_for_writing()
  for i = 1, #fixes do fixes[i]() end
end
return {following, #present, found, {}, present}
