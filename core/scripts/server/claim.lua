-- include: prelude keys claims
-- CLAIM: takes due ids, each with all its waiting payloads, into process, oldest due first. Their records stay where
-- they are. A claim stops at 1,000 payloads or 1 MiB. An unproven or suspect id is claimed alone.
--
-- KEYS: the shard's
-- ARGV: 1 generation
--       2 lease
--       3 seen: fence of the last claim whose answer the caller has; after an acquire: the fence that its answer gave
--       4 the most ids to take
--       5 what to take (CLAIM_*): 0 due ids, 1 one unproven id, 2 one suspect id
--       6 time to run in microseconds, 0 for none
--       7 fold
--       8 history_per_id
--       9 max_retry_count and
--       10 on_exhausted, with '+' behind it where retries_exhausted is to be told: for runs of poppers that were not acknowledged in time
--       11 '1' where the queue has remember_score, else nothing
--       12 window: pushes may claim for the caller (hand_over.lua) while fewer ids run, 0 to 255; nothing: 0. A limit of 0 sets it alone
--
-- Returns {now, fence, next, unproven, suspect, flags, mode, whole}, and where ids were taken two more: MessagePack arrays of texts,
-- the ids and their records.
--   next      the microsecond at which something is due, or a scheduled payload arrives; 0: more is due now; 9e15: nothing will be.
--             Of a paused shard, when a scheduled payload arrives
--   unproven  the microsecond at which the next unproven id is due; 9e15 if no id is unproven
--   suspect   the same of a suspect
--   flags     1 the shard is paused
--             2 recover.lua has something to do
--             4 retries_exhausted is to be told of something
--             8 a scheduled payload will arrive a minute later, because the record of its id cannot be read
--             16 for each scheduled payload that was stale at its arrival
--   mode      of the runs: n normal, u unproven, s suspect, o died
--   whole     1: the claim may be settled as a whole
-- The run of an id is '1' if its record is spilled, else '0', then mode, then fence.
-- If there are later claims than seen, the first of them is answered again, and nothing is claimed. If the last claim is an earlier
-- one than seen, nothing is given.
--
-- Error replies: STALE owner
local limit, wanted, ttr = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if lease ~= tonumber(ARGV[2]) then return error_reply('STALE ' .. owner) end
history = tonumber(ARGV[8])
if not (history and history >= 0 and history <= HISTORY_MOST) then return error_reply('ERR wrong history') end
events = history > 0 and {} or nil
remembers = ARGV[11] == '1' and 1 or 0
window = tonumber(ARGV[12] or 0)
if not (window and window >= 0 and window <= 255 and window % 1 == 0) then return error_reply('ERR wrong window') end
if window > 0 then window = max(window - max(call('HLEN', RUNNING) - 1, 0), 0) end -- one field is the owner's

-- Functions are made only where they are needed: to make them takes longer than a small claim.
local BYTES, PAYLOADS, SLICE = 1048576, 1000, 64
local seen = tonumber(ARGV[3])
local again, paused = claimed ~= seen, flags % (2 * FLAG_PAUSED) >= FLAG_PAUSED
local given, given_records, packed, mode, spills, whole, more = {}, {}, nil, RUN_NORMAL, false, false, again
local payloads, bytes, retried, from_due, from_ready, stuck, came_stale = 0, 0, {}, 0, 0, 0, 0

-- Where seen is the later one, a failover forgot that claim: what an earlier one took is the caller's already, and is not given again.
local answered = claimed
if claimed > seen then
  -- The caller may have missed several claims, which pushes made for it, or which were spread since. It hears of them in their order.
  -- Where it has seen nothing, because deaths are to be reported, the last claim is that of the reports.
  local fences, runs = seen > 0 and call('HKEYS', CLAIMS) or {}, call('HGETALL', RUNNING)
  for i = 1, seen > 0 and #runs or 0, 2 do
    if runs[i] ~= '' and sub(runs[i + 1], 2, 2) ~= RUN_POPPED then fences[#fences + 1] = sub(runs[i + 1], 3) end
  end
  for i = 1, #fences do
    local number = tonumber(fences[i])
    if number and number > seen then answered = min(answered, number) end
  end
  local fence = format('%.0f', answered)
  local noted = call('HGET', CLAIMS, fence)
  local ids = noted and ids_of(noted) or {}
  for i = 1, noted and 0 or #runs, 2 do
    if sub(runs[i + 1], 3) == fence and sub(runs[i + 1], 2, 2) ~= RUN_POPPED then
      mode = sub(runs[i + 1], 2, 2)
      ids[#ids + 1] = runs[i]
    end
  end
  whole = noted and true or false
  for i = 1, #ids do
    local record = call('HGET', JOBS, ids[i])
    if record then given[#given + 1], given_records[#given_records + 1] = ids[i], record end
  end
elseif not again then
  local overdue = given
  if ttr > 0 or ends <= now then
    overdue = call('ZRANGEBYSCORE', OVERRUN, '-inf', format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, 20)
    if not overdue[1] then ends = tonumber(call('ZRANGE', OVERRUN, 0, 0, 'WITHSCORES')[2]) or FOREVER end
  end
  if overdue[1] or delivers <= now then
    -- Redis refuses a limit that Lua writes as 1e+16; this must happen before the first write.
    if not limit or limit % 1 ~= 0 or limit > 1e9 then return error_reply('ERR wrong limit') end
    local retries, action, told = tonumber(ARGV[9]), string.match(ARGV[10] or '', '^(%l+)(%+?)$')
    if not retries or not action then return error_reply('ERR wrong arguments') end
    -- include: note spread record probe_overdue
    probe()
    probe_overdue(overdue, told == '+')
    -- Scheduled payloads whose time has come, in a paused shard as well. Where that was much, nothing is taken: the next claim does.
    if delivers <= now then
      -- include: join scheduled scores move_scheduled
      local long
      long, came_stale = arrive(ARGV[7])
      if long then limit = 0 end
      if postponed > 0 then stuck = SAYS_POSTPONED end
    end
    if overdue[1] then
      local FOLD, TELLER, has_next = ARGV[7], owner, true
      local function advance()
        tick = max(tick + 1, now)
        return tick
      end
      -- include: notify outcome overdue
      end_overdue(overdue, retries, action, told == '+')
    end
  end
end

-- Takes an id with its record; kind is the record's.
local function take(id, record, kind)
  local has = 1
  if kind >= RECORD_FULL then
    local retry, _, entries, error = unpack_struct('<i4BI4I4', record, RECORD_RETRY + 1)
    if retry >= 0 then retried[#retried + 1] = id end
    has = entries
    if kind >= 12 then
      spills = true
      bytes = bytes + has * unpack_struct('<I4', record, 39 + error) -- at most: see record.lua
    end
  end
  payloads, bytes = payloads + has, bytes + #record
  given[#given + 1], given_records[#given_records + 1] = id, record
end

-- With serial_shards, a popper has the one id of the shard that may run. Nothing is claimed until its run ends, which wakes the owner.
-- A run that a repair or an eviction has removed leaves the flag set.
local alone = flags % (2 * FLAG_ALONE) >= FLAG_ALONE and call('HLEN', RUNNING) > call('HEXISTS', RUNNING, '')
local taking, doubted = not again and not paused and not alone and limit > 0, flags % (2 * FLAG_DOUBTED) >= FLAG_DOUBTED
local due_count, ready_count = call('ZCARD', DUE), call('LLEN', READY)
if taking and wanted ~= CLAIM_READY then
  local key = UNPROVEN
  mode = RUN_UNPROVEN
  if wanted == CLAIM_SUSPECT then key, mode = SUSPECT, RUN_SUSPECT end
  local id = call('ZRANGEBYSCORE', key, '-inf', format('%.0f', now), 'LIMIT', 0, 1)[1]
  local record = id and call('HGET', JOBS, id)
  call('ZCARD', UNPROVEN) call('ZCARD', SUSPECT) call('ZCARD', RETRY) call('HLEN', RUNNING) -- a key of the wrong type ends the script before its first write
  if id then
    call('ZREM', key, id)
    more = true
  end
  if record then
    call('ZREM', RETRY, id)
    given[1], given_records[1], spills = id, record, true
  end
elseif taking then
  local due = due_count > 0 and call('ZRANGEBYSCORE', DUE, '-inf', format('%.0f', now), 'LIMIT', 0, limit) or {}
  local ready = ready_count > 0 and call('LRANGE', READY, 0, limit - 1) or {}
  local full = false

  -- To look up the runs of all candidates is slow, so it is done only where an entry of ready is stale.
  local wary = false
  if ready[1] then
    -- include: stale_ready
  end

  if due[1] or wary then
    -- include: runs
    -- Small records are read in few calls.
    local function slice_length() return bytes < #given * 1024 and 1000 or SLICE end

    -- A list of candidate ids, read slice by slice: `id`, `record` and `due` are of the one at place `at`.
    local function candidates(ids, where)
      return {ids = ids, count = #ids, where = where, at = 0, from = 0, to = 0}
    end

    local taken, merging = {}, due[1] and ready[1]
    local function load(c)
      local ids, from = c.ids, c.at
      c.from, c.to = from - 1, min(from + slice_length() - 1, c.count)
      c.records = call('HMGET', JOBS, unpack(ids, from, c.to))
      c.runs = wary and runs_of({unpack(ids, from, c.to)})
    end

    -- Goes to the next id that really lies here and does not run.
    local function next_candidate(c)
      local ids, count, where = c.ids, c.count, c.where
      for at = c.at + 1, count do
        c.at = at
        if at > c.to then load(c) end
        local record = c.records[at - c.from]
        local kind = record and byte(record)
        if kind and kind % RECORD_PLACES == where and not (wary and (c.runs[at - c.from] or taken[ids[at]])) then
          c.id, c.record, c.kind = ids[at], record, kind
          if merging then c.due = unpack_struct('<d', record, RECORD_DUE + 1) end
          return
        end
      end
      c.at, c.id = count + 1, nil
    end

    -- Oldest due first.
    local later, now_due = candidates(due, 1), candidates(ready, 0)
    next_candidate(later)
    next_candidate(now_due)
    while not full do
      local c = later
      if not later.id or (now_due.id and now_due.due < later.due) then c = now_due end
      if not c.id then break end
      if wary then taken[c.id] = true end
      take(c.id, c.record, c.kind)
      next_candidate(c)
      full = #given == limit or bytes >= BYTES or payloads >= PAYLOADS
    end
    from_due, from_ready = later.at - 1, now_due.at - 1
  else
    -- The common case: nothing else is due, and no entry of ready runs.
    while from_ready < #ready and not full do
      local from, n = from_ready, #given
      local records = call('HMGET', JOBS, unpack(ready, from + 1, min(from + (bytes < n * 1024 and 1000 or SLICE), #ready)))
      from_ready = from + #records
      for k = 1, #records do
        local record = records[k]
        local kind = record and byte(record)
        if kind == 0 then
          n, payloads, bytes = n + 1, payloads + 1, bytes + #record
          given[n], given_records[n] = ready[from + k], record
        elseif kind and kind % RECORD_PLACES == PLACE_READY then
          n = n + 1
          take(ready[from + k], record, kind)
        end
        if payloads >= PAYLOADS or bytes >= BYTES then
          full, from_ready = true, from + k
          break
        end
      end
    end
    full = full or #given == limit
  end
  -- A key of the wrong type ends the script before its first write.
  if given[1] then call('HLEN', (spills or ttr > 0) and RUNNING or CLAIMS) end
  if retried[1] then call('ZCARD', RETRY) end
  if doubted then call('ZCARD', UNPROVEN) call('ZCARD', SUSPECT) end
  if from_ready > 0 then call('LTRIM', READY, from_ready, -1) end
  if from_due > 0 then call('ZREM', DUE, unpack(due, 1, from_due)) end
  if retried[1] then call('ZREM', RETRY, unpack(retried)) end
  more = full or not given[1] and (from_ready > 0 or from_due > 0)
end

-- At maxmemory Redis refuses a script's first write if it may need memory, and none after an allowed one.
if from_ready == 0 then call('ZREM', DUE, '') end

-- Notes the runs of the ids, as a whole where they are alike, and when their time is over. All have one mode.
if given[1] and not again then
  tick = max(tick + 1, now)
  claimed, answered = tick, tick
  local fence = format('%.0f', claimed)
  for i = 1, events and #given or 0 do events[#events + 1] = {given[i], EVENT_CLAIMED, claimed, owner} end
  whole = mode == RUN_NORMAL and ttr == 0 and not spills
  if whole then
    packed = cmsgpack.pack(given)
    call('HSET', CLAIMS, fence, packed)
    held = held + #given
  else
    local plain, spilled = '0' .. mode .. fence, '1' .. mode .. fence
    local runs = {}
    for i = 1, #given do
      runs[2 * i - 1], runs[2 * i] = given[i], spills and byte(given_records[i]) >= RECORD_SPILLED and spilled or plain
    end
    call('HSET', RUNNING, unpack(runs))
    window = max(window - #given, 0)
    if ttr > 0 then
      local marked, at = {}, format('%.0f', now + ttr)
      for i = 1, #given do marked[2 * i - 1], marked[2 * i] = at, given[i] end
      call('ZADD', OVERRUN, unpack(marked))
    end
  end
end

local unproven, suspect, soon = FOREVER, FOREVER, FOREVER
if doubted then
  unproven = tonumber(call('ZRANGE', UNPROVEN, 0, 0, 'WITHSCORES')[2]) or FOREVER
  suspect = tonumber(call('ZRANGE', SUSPECT, 0, 0, 'WITHSCORES')[2]) or FOREVER
  if unproven == FOREVER and suspect == FOREVER then flags = flags - 2 end
end
if alone then unproven, suspect = FOREVER, FOREVER end
wake = 0
if delivers < FOREVER then soon = delivers > now and delivers or 0 end
if ends < soon then soon = ends > now and ends or 0 end
if not paused and not (alone and not again) then
  if more or ready_count > from_ready then
    soon = 0
  elseif due_count > from_due then
    soon = min(soon, tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]) or FOREVER)
  end
  if ttr > 0 then soon = min(soon, tonumber(call('ZRANGE', OVERRUN, 0, 0, 'WITHSCORES')[2]) or FOREVER) end
  -- The owner knows of ids in doubt that are due, but may have to wait for a thread before it claims them.
  wake = min(soon, unproven > now and unproven or FOREVER, suspect > now and suspect or FOREVER)
  if wake <= now then wake = 0 end
end
if alone and not paused then wake = soon > now and soon or 0 end
-- include: save
local answer = {format('%.0f', now), format('%.0f', answered), format('%.0f', soon), format('%.0f', unproven),
  format('%.0f', suspect), (paused and SAYS_PAUSED or 0) + (flags % (2 * FLAG_UNFINISHED) >= FLAG_UNFINISHED and SAYS_UNFINISHED or 0)
    + (flags % (2 * FLAG_NOTICED) >= FLAG_NOTICED and SAYS_NOTICED or 0) + stuck + SAYS_STALE * came_stale, mode, whole and 1 or 0}
if given[1] then answer[9], answer[10] = packed or cmsgpack.pack(given), cmsgpack.pack(given_records) end
return answer
