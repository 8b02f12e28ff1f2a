-- library: flags - a shard's flags

-- paused: claims give nothing; doubted: an id may be unproven or suspect; above them a number that operators' changes
-- raise.
local PAUSED, DOUBTED = 1, 2
local function is(flag) return flags % (flag + flag) >= flag end
local function flag_as(flag, on) if is(flag) ~= on then flags = flags + (on and flag or -flag) end end
