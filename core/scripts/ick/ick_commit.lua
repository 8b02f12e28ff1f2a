-- include: rights ick
-- ICK_COMMIT: ends reservations of the caller. Members that it has not reserved under this token are ignored.
-- KEYS: those of ick_keys.lua
-- ARGV: 1 consumer, 2 token, 3.. members, at most ICK_SLICE
-- Returns how many reservations were ended
if #KEYS ~= 8 or #ARGV < 2 or #ARGV > 2 + ICK_SLICE then return error_reply('ERR wrong arguments') end
return end_reservations(ARGV[1], ARGV[2], {unpack(ARGV, 3)})
