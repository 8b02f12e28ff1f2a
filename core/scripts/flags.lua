-- library: flags - a shard's flags

-- paused: claims give nothing; doubted: an id may be unproven or suspect; unfinished: recover.lua has something to do; above
-- them a number that operators' changes raise.
local PAUSED, DOUBTED, UNFINISHED = 1, 2, 4
local function is(flag) return flags % (flag + flag) >= flag end
local function flag_as(flag, on) if is(flag) ~= on then flags = flags + (on and flag or -flag) end end
