-- library: channel - where the owner of the shard hears of what it did not do itself: `channel`. A shard without an owner has none.
local channel = sub(STATE, 1, string.find(STATE, ':{', 1, true)) .. 'wake:' .. owner
