-- include: rights ick
-- ICK_DELETE: removes a two-phase commit set with its reservations. Redis frees the memory in another thread.
-- KEYS: 1 to 7 of ick_keys.lua
-- Returns how many of these there were: the version, members to be reserved, reserved members
local found = (version and 1 or 0) + ((there[2] or there[3]) and 1 or 0) + (there[4] and 1 or 0)
local keys, consumers = {ABOUT, PSET, AGAIN, HELD, TOKENS, ENDS}, call('ZRANGE', ENDS, 0, -1)
for i = 1, #consumers do keys[#keys + 1] = PREFIX .. 'cset:' .. consumers[i] end
call('UNLINK', unpack(keys))
return found
