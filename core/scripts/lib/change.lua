-- library: change - for scripts that change a shard
-- include: note

local function save()
  -- include: save
end

-- A fence or an arrival stamp: never falls, never repeats.
local function advance()
  tick = max(tick + 1, now)
  return tick
end

-- At maxmemory Redis refuses a script's first write if it may need memory, and none after an allowed one.
local function open_for_writing() call('ZREM', PREFIX .. 'due', '') end
