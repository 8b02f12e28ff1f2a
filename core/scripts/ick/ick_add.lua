-- include: rights ick
-- ICK_ADD: adds members to a two-phase commit set, or lowers the scores of those that it has. A member that is reserved is kept
-- beside its reservation: whoever reserved it may have read its data before this change.
-- KEYS: 1 to 7 of ick_keys.lua
-- ARGV: score, member, ...; at most ICK_SLICE members, none is possible; a score is a number, inf or -inf
-- Returns {how many members are new, how many scores were lowered}
if #ARGV % 2 ~= 0 or #ARGV > 2 * ICK_SLICE then return error_reply('ERR wrong arguments') end
local members, scores, free, again = {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  local score = tonumber(ARGV[i])
  if not score or score ~= score then return error_reply('ERR wrong score') end
  members[#members + 1] = ARGV[i + 1]
  scores[#members] = format('%.17g', score)
end
local holders = there[4] and members[1] and call('HMGET', HELD, unpack(members)) or {}
for i = 1, #members do
  local list = holders[i] and again or free
  list[#list + 1] = scores[i]
  list[#list + 1] = members[i]
end

local function add(key, list)
  if not list[1] then return 0, 0 end
  local before = call('ZCARD', key)
  local touched = call('ZADD', key, 'LT', 'CH', unpack(list))
  local new = call('ZCARD', key) - before
  return new, touched - new
end

-- The first write is one that Redis refuses at maxmemory.
if not version then call('HSET', ABOUT, 'version', ICK_VERSION) end
local new, lowered = add(PSET, free)
local new_again, lowered_again = add(AGAIN, again)
return {new + new_again, lowered + lowered_again}
