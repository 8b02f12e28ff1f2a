-- library: here - for a push to the shard that ids leave: it may only join an id that is there. It needs prelude.
-- An id is there if one of these is: a record in jobs, a scheduled payload, a dead record, a remembered score. Nothing is created in such
-- a shard any more, so what is not there will never be.

-- Notes which ids are not here (m), or in a batch that is on its way (g). old: their records in jobs. Returns how many.
local function find_elsewhere(ids, old, noted)
  local count = 0
  local left, dead = call('HMGET', PREFIX .. 'leaving', unpack(ids)), call('HMGET', DEAD, unpack(ids))
  local scores = call('HMGET', PREFIX .. 'scores', unpack(ids))
  for i = 1, #ids do
    local score = scores[i] and #scores[i] == 16 and select(2, unpack_struct('<dd', scores[i])) > now
    if not old[i] and (left[i] or not (dead[i] or score or call('EXISTS', PREFIX .. 'sched:' .. ids[i]) == 1)) then
      noted[i], count = left[i] and 'g' or 'm', count + 1
    end
  end
  return count
end
