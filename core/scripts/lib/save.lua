-- library: save - writes the state, and what the script has noted of the ids' histories; tells poppers that sleep beyond the time at
-- which something is due
-- include: events
if placed < asleep and flags % (2 * FLAG_PAUSED) < FLAG_PAUSED then
  asleep = 0
  redis.pcall('PUBLISH', PREFIX .. 'wake', '') -- best effort: see owner.lua
end
call('SET', STATE, pack(STATE_FORMAT,
  generation, tick, lease, claimed, settled, wake, processed, failed, refused, pushed, held, flags, delivers, removed, history, stale, remembers,
  ends, asleep, window) .. owner)
