-- library: here - which ids a shard that ids leave has. A push to that shard may only join an id that is there. It needs prelude.
-- An id is there if one of these is: a record in jobs, a scheduled payload, a dead record, a remembered score. Nothing is created in such
-- a shard any more, so what is not there will never be. Whoever includes this has refused a shard without a state, which is of no
-- generation yet and takes jobs of any.

-- Notes which ids are not in the shard with this prefix (m), or in a batch that is on its way (g). old: their records in its jobs.
-- Returns how many.
-- Most ids have nothing here, and each look-up costs as much as a job, so what is empty is not searched.
local function find_elsewhere(prefix, ids, old, noted)
  local LEFT, DEAD, SCORES, SCHED, FEW = prefix .. 'leaving', prefix .. 'dead', prefix .. 'scores', prefix .. 'sched:', 512
  local count = 0
  if call('EXISTS', LEFT, DEAD, SCORES, prefix .. 'scheduled') == 0 then
    for i = 1, #ids do
      if not old[i] then noted[i], count = 'm', count + 1 end
    end
    return count
  end

  local asked = {}
  for i = 1, #ids do
    if not old[i] then asked[#asked + 1] = ids[i] end
  end
  if not asked[1] then return 0 end

  local lengths = {[LEFT] = call('HLEN', LEFT), [DEAD] = call('HLEN', DEAD), [SCORES] = call('HLEN', SCORES)}
  local has_scheduled = call('ZCARD', prefix .. 'scheduled') > 0
  -- The asked ids, and perhaps others, that are fields of a hash. Redis searches a small hash field by field, so it is read instead.
  local function fields_of(key)
    local found, length = {}, lengths[key]
    if length > FEW or length > 8 * #asked then
      local values = call('HMGET', key, unpack(asked))
      for i = 1, #asked do found[asked[i]] = values[i] end
    elseif length > 0 then
      local fields = call('HKEYS', key)
      for i = 1, #fields do found[fields[i]] = true end
    end
    return found
  end
  local function are_scheduled()
    local keys = {}
    for i = 1, #asked do keys[i] = SCHED .. asked[i] end
    return call('EXISTS', unpack(keys)) > 0
  end
  local function is_remembered(id)
    local score = call('HGET', SCORES, id)
    return score and #score == 16 and select(2, unpack_struct('<dd', score)) > now
  end

  local left, dead, scored, scheduled = fields_of(LEFT), fields_of(DEAD), fields_of(SCORES), has_scheduled and are_scheduled()
  for i = 1, #ids do
    local id = ids[i]
    if not old[i] and (left[id] or not (dead[id] or scored[id] and is_remembered(id) or scheduled and call('EXISTS', SCHED .. id) == 1)) then
      noted[i], count = left[id] and 'g' or 'm', count + 1
    end
  end
  return count
end
