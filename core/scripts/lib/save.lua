-- library: save - writes the state, and what the script has noted of the ids' histories
-- include: events
call('SET', STATE, pack(STATE_FORMAT,
  generation, tick, lease, claimed, settled, wake, processed, failed, refused, pushed, held, flags, delivers, removed, history, stale, remembers) .. owner)
