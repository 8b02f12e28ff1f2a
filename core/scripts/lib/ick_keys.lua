-- library: ick_keys - the keys of one two-phase commit set (an Ick), and their types
--
-- KEYS, all with the hash tag of the name (docs/internals/layout.md):
--    1 about   hash  'version' -> ICK_VERSION, 'token' -> the last token that was given
--    2 pset    zset  member -> score: members that can be reserved
--    3 again   zset  member -> score: members that were added again while they are reserved; they are not in pset
--    4 held    hash  member -> consumer that has reserved it; these are not in pset
--    5 tokens  hash  consumer -> token of its reservations
--    6 ends    zset  consumer -> microseconds from which another consumer may take its reservations
--    7 guard   never there: see prelude.lua
--    8 cset:CONSUMER  zset  member -> score: what the caller has reserved; only where the caller is a consumer
-- Error replies: ERR ... (a key is of another type, or the set is of another version)
local call, error_reply = redis.call, redis.error_reply
local sub, format, max, min, unpack = string.sub, string.format, math.max, math.min, unpack
local ABOUT, PSET, AGAIN, HELD, TOKENS, ENDS, _, CSET = unpack(KEYS)
local PREFIX = sub(ABOUT, 1, -6)

local there = {}
for i = 1, #KEYS do
  local found, wanted = call('TYPE', KEYS[i]).ok, (i == 1 or i == 4 or i == 5) and 'hash' or 'zset'
  if found ~= 'none' then
    if found ~= wanted then
      return error_reply(format('ERR the key %s of this set is a %s, not a %s', i < 8 and sub(KEYS[i], #PREFIX + 1) or 'cset', found, wanted))
    end
    there[i] = true
  end
end

local version = there[1] and call('HGET', ABOUT, 'version')
if version and version ~= ICK_VERSION then return error_reply('ERR this set is of a version that is not known') end
