-- library: flags - a shard's flags

-- paused: claims give nothing; doubted: an id may be unproven or suspect; unfinished: recover.lua has something to do; noticed:
-- retries_exhausted is to be told of something (notices.lua); above them a number that operators' changes raise.
local PAUSED, DOUBTED, UNFINISHED, NOTICED = 1, 2, 4, 8
local function is(flag) return flags % (flag + flag) >= flag end
local function flag_as(flag, on) if is(flag) ~= on then flags = flags + (on and flag or -flag) end end
