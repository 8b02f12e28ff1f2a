-- library: save - writes the state
call('SET', STATE, pack(STATE_FORMAT,
  generation, tick, lease, claimed, settled, wake, processed, failed, refused, pushed, held, flags, delivers, removed) .. owner)
