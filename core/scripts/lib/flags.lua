-- library: flags - the bits of a shard's flags, which model/stored.h names; above them stands a number that operators' changes raise
local function is(flag) return flags % (flag + flag) >= flag end
local function flag_as(flag, on) if is(flag) ~= on then flags = flags + (on and flag or -flag) end end
