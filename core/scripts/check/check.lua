-- include: prelude keys record admin
-- CHECK: proves a slice of what is stored; with repair, mends what can be mended without losing a payload.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part, 3 cursor ('0' at first), 4 '1' to repair, 5.. ids
--   parts: jobs, next, running, dead; due, parked, unproven, suspect, retry, died, overrun: read by cursor
--          ready: are these ids near an end of the ready list, if their records say so?
--          spill, nextspill, deadspill, spillmap, nextspillmap, deadspillmap: do records own these keys of these ids?
--          push: do these keys of clients end?
-- A repair folds nothing: payloads that are equal stay side by side, because the mode of the queue may not be known here.
-- Returns {cursor ('0' at the end), looked at, {finding, id, detail, '1' if repaired, ...}, ids that must be in the ready list,
--   of jobs and dead the ids of the slice}
local part, cursor, repair, FOLD = ARGV[2], ARGV[3], ARGV[4] == '1', 'list'
local ids = {unpack(ARGV, 5)}
local found, fixes, ready, present = {}, {}, {}, {}
probe()

local function find(finding, id, detail, fix)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, id, detail, (repair and fix) and '1' or '0'
  if repair and fix then fixes[#fixes + 1] = fix end
end

-- What cannot be read goes to the morgue as it is; it must not stall the shard.
local function bury_bytes(store, id, record)
  call('HDEL', store.hash, id)
  if store == first then call('HDEL', RUNNING, id) call('ZREM', OVERRUN, id) end
  local r = {place = PLACE_READY, due = now, retry = -1, mark = MARK_NONE, error = 'record in ' .. sub(store.hash, #PREFIX + 1) .. ' cannot be read',
    entries = {{stamp = advance(), score = now / 1e6, context = '', payload = record}}}
  if store == morgue then write(morgue, id, r, FOLD) else bury(id, r.entries, r.error, FOLD) end
end

local function record_of(store, id, record)
  record = record or call('HGET', store.hash, id)
  if not record then return nil end
  local ok, r = pcall(read, record)
  if ok and (r.entries or r.form == RECORD_SPILLED) and r.form <= RECORD_SPILLED then return r end
  find('unreadable', id, 'record in ' .. sub(store.hash, #PREFIX + 1) .. ' cannot be read', function()
    bury_bytes(store, id, record)
  end)
end

-- How many a key holds; a key of the wrong type holds none and is put aside.
local function size(command, key, id)
  local count = redis.pcall(command, key)
  if type(count) == 'number' then return count end
  local name = string.match(sub(key, #PREFIX + 1), '^%a+')
  find('type', id, name .. ' is a ' .. call('TYPE', key).ok, function()
    call('RENAME', key, format('%smisplaced:%s:%.0f:%s', PREFIX, name, now, id))
  end)
  return 0
end

-- Ends a record of which no payload is left.
local function end_empty(store, id, r)
  if store == first and run_of(id) then
    r.count = 0
    if not r.entries then rewrite(store, id, r) end
    return
  end
  remove(store, id, r)
end

-- Is there what the record counts? false: there is nothing.
local function check_payloads(store, id, r)
  if r.entries then
    if r.entries[1] then return true end
    if store == first and run_of(id) then return false end -- all have been checkpointed
    find('payloads', id, 'record has no payloads', function() end_empty(store, id, r) end)
    return false
  end
  local count = size('ZCARD', store.spill .. id, id)
  size('HLEN', store.map .. id, id)
  -- Of a run, all may have been checkpointed.
  if count == r.count and (count > 0 or store == first and run_of(id)) then return count > 0 end
  local detail = count == r.count and 'record has no payloads' or format('record counts %d payloads, %d are stored', r.count, count)
  find('payloads', id, detail, function()
    if count == 0 then end_empty(store, id, r) return end
    r.count = count
    rewrite(store, id, r)
  end)
  return count > 0
end

local function check_index(key, id, score, finding)
  local known = call('ZSCORE', key, id)
  if known and (not score or tonumber(known) == score) then return end
  score = score or now
  local name = sub(key, #PREFIX + 1)
  find(finding, id, known and format('%s has another number', name) or format('missing in %s', name), function()
    call('ZADD', key, format('%.0f', score), id)
  end)
end

local function is_run(run) return string.match(run, '^[0-?][nusombp]%d+$') end

local function check_job(id, record)
  local r = record_of(first, id, record)
  if not r or not check_payloads(first, id, r) then return end
  local run = run_of(id)
  if run and not is_run(run) then return end
  if run then
    local spilled = r.entries and 0 or 1
    if digit_of(run) % RUN_DELETED ~= spilled then
      find('run', id, 'the run does not say whether payloads are spilled', function()
        flagged(id, run, digit_of(run) - digit_of(run) % RUN_DELETED + spilled)
      end)
    end
    return
  end
  if r.place == PLACE_READY then
    ready[#ready + 1] = id
  elseif r.place == PLACE_DUE then
    if not (is(FLAG_SOURCE) and call('ZSCORE', PREFIX .. 'moving', id)) then check_index(DUE, id, r.due, 'index') end
  elseif r.place == PLACE_PARKED then
    if not call('ZSCORE', PARKED, id) then check_index(PARKED, id, now, 'index') end
  else
    check_index(r.mark == MARK_SUSPECT and SUSPECT or UNPROVEN, id, r.due, 'index')
    if not is(FLAG_DOUBTED) then find('state', id, 'nothing says that an id is in doubt', function() flag_as(FLAG_DOUBTED, true) end) end
  end
  if r.place ~= PLACE_PARKED and r.retry >= 0 then check_index(RETRY, id, r.retry, 'retry') end
end

local function check_next(id, record)
  local n = record_of(second, id, record)
  if not n then return end
  if not check_payloads(second, id, n) then return end
  if run_of(id) then return end
  local r = record_of(first, id)
  find('behind', id, 'waits behind a run that is not there', function()
    if not r then promote(id, record, 0) return end
    if payloads_to_move(r, n, FOLD) > may_move then
      unplace(id, r)
      unite_later(id, r, FOLD, r.place == PLACE_PARKED and RUN_TO_PARK or 0)
      return
    end
    unite(first, id, r, second, n, FOLD)
    write(first, id, r, FOLD)
  end)
end

local function back(id, run, r)
  r.due, r.place = now, PLACE_DUE
  come_back(id, run, r, FOLD)
end

local function check_running(id, run)
  if id == '' then return end
  local record = call('HGET', JOBS, id)
  if not record then
    find('run', id, 'runs without a record', function()
      local rest = record_of_run(id)
      run = is_run(run) and run or '0'
      if rest then back(id, run, rest) else come_back(id, run, nil, FOLD) end
    end)
    return
  end
  local ok, r = pcall(read, record)
  if not ok then return end
  if not is_run(run) then
    find('run', id, 'run cannot be read', function() back(id, '0', r) end)
    return
  end
  local fence, mode = tonumber(sub(run, 3)), sub(run, 2, 2)
  if mode == RUN_UNITING then
    if not is(FLAG_UNFINISHED) then find('state', id, 'nothing says that an id is uniting', function() flag_as(FLAG_UNFINISHED, true) end) end
    check_index(UNITING, id, nil, 'index')
    return
  end
  if mode == RUN_POPPED then
    local to = tonumber(call('ZSCORE', OVERRUN, id))
    if not to then
      check_index(OVERRUN, id, now, 'index')
      to = now
    end
    if to < ends then find('state', id, 'nothing says when the run of a popper ends', function() ends = min(ends, to) end) end
    return
  end
  local since, pending = read_owner_field()
  if owner ~= '' and not pending and (fence < since or fence > claimed or mode == RUN_LOST) then
    find('run', id, 'the run is of no claim of the owner', function() back(id, run, r) end)
  end
end

-- The claims that hold ids. Each of these runs as one in `running` does.
local miscounted = false
local function check_claims()
  local claims, there = call('HGETALL', CLAIMS), 0
  for i = 1, #claims, 2 do
    local fence, packed = claims[i], claims[i + 1]
    local taken = ids_of(packed)
    if not taken[1] then
      find('run', fence, 'claim cannot be read', function() call('HDEL', CLAIMS, fence) end)
    elseif byte(packed) ~= SPREAD then
      there = there + #taken
      for k = 1, #taken do check_running(taken[k], RUN_PLAIN .. fence) end
    end
  end
  if there == held then return end
  miscounted = true
  find('state', '', format('state counts %.0f ids in claims, there are %.0f', held, there), function() end)
end

local function check_dead(id, record)
  local r = record_of(morgue, id, record)
  if not r or not check_payloads(morgue, id, r) then return end
  check_index(DIED, id, r.due, 'index')
end

-- Does an entry of an index lead to what the index is for?
local function belongs(id)
  if part == 'died' then return call('HEXISTS', DEAD, id) == 1 end
  local running = run_of(id)
  if part == 'overrun' then return running end
  local record = call('HGET', JOBS, id)
  if not record or running then return false end
  local r = record_of(first, id, record)
  if not r then return true end
  if part == 'retry' then return r.retry >= 0 and r.place ~= PLACE_PARKED end
  if part == 'due' then return r.place == PLACE_DUE end
  if part == 'parked' then return r.place == PLACE_PARKED end
  return r.place == PLACE_IN_DOUBT and (r.mark == MARK_SUSPECT) == (part == 'suspect')
end

local function check_entry(key, id)
  if belongs(id) then return end
  find('stale', id, 'entry in ' .. part .. ' leads to nothing', function() call('ZREM', key, id) end)
end

local following, looked
do -- a block, because a script has at most 200 local variables
  local ENDS = 500 -- elements of the ready list that one id is looked for in, at each end

  -- The reader has not seen this ready id in the list. If it came there meanwhile, it lies near an end.
  local function check_ready(id)
    local record = call('HGET', JOBS, id)
    if not record or byte(record) % RECORD_PLACES ~= PLACE_READY or run_of(id) then return end
    if call('LPOS', READY, id, 'RANK', -1, 'MAXLEN', ENDS) or call('LPOS', READY, id, 'MAXLEN', ENDS) then return end
    find('index', id, 'missing in ready', function() call('RPUSH', READY, id) end)
  end

  -- Payloads that no record owns become its again.
  local function adopt(store, id)
    local r = record_of(store, id)
    local few = r and r.entries or {}
    if not r then
      r = blank()
      if store == morgue then
        r.place = PLACE_READY
        call('ZADD', DIED, format('%.0f', now), id)
      elseif store == first then
        place(id, r)
      end
    end
    r.entries, r.count = nil, call('ZCARD', store.spill .. id)
    widen_bounds(r)
    fold_entries(store, id, r, few, FOLD)
    write(store, id, r, FOLD)
  end

  local function check_owned(id)
    local store = ({spill = first, next = second, dead = morgue})[string.match(part, '^next') or string.match(part, '^dead') or 'spill']
    local r = record_of(store, id)
    if r and not r.entries or call('HEXISTS', PREFIX .. 'leaving', id) == 1 then return end
    local count, contexts = size('ZCARD', store.spill .. id, id), size('HLEN', store.map .. id, id)
    if sub(part, -3) == 'map' then
      if count == 0 and contexts > 0 then
        find('orphan', id, part .. ' belongs to no payloads', function() call('DEL', store.map .. id) end)
      end
    elseif count > 0 then
      local runs = run_of(id) and true or false
      local whose = (store == morgue or runs == (store == second)) and (r or call('HEXISTS', store.hash, id) == 0)
      find('orphan', id, format('%d payloads in %s belong to no record', count, part), whose and function() adopt(store, id) end)
    end
  end

  -- What a client pushed last is forgotten after a minute.
  local function check_push(client)
    local key = PREFIX .. 'push:' .. client
    local there = call('TYPE', key).ok
    if there == 'none' then return end -- it has expired since the scan
    if there ~= 'string' then
      find('type', client, 'push is a ' .. there, function() call('DEL', key) end)
    elseif call('PTTL', key) == -1 then
      find('push', client, 'what a client pushed last would stay for ever', function() call('PEXPIRE', key, PUSH_TOKEN_MS) end)
    end
  end

  -- Sets the cursor, and how many were looked at.
  local function check_slice()
    local HASHES = {jobs = {JOBS, check_job}, next = {NEXT, check_next}, running = {RUNNING, check_running}, dead = {DEAD, check_dead}}
    local SETS = {due = DUE, parked = PARKED, unproven = UNPROVEN, suspect = SUSPECT, retry = RETRY, died = DIED, overrun = OVERRUN}
    looked, following = #ids, '0'
    if HASHES[part] then
      local key, check = unpack(HASHES[part])
      local page = call('HSCAN', key, cursor, 'COUNT', 50)
      if part == 'running' and cursor == '0' then check_claims() end
      following, looked = page[1], #page[2] / 2
      for i = 1, #page[2], 2 do
        check(page[2][i], page[2][i + 1])
        if part == 'jobs' or part == 'dead' then present[#present + 1] = page[2][i] end
      end
    elseif SETS[part] then
      local page = call('ZSCAN', SETS[part], cursor, 'COUNT', 50)
      following, looked = page[1], #page[2] / 2
      for i = 1, #page[2], 2 do check_entry(SETS[part], page[2][i]) end
    else
      local check = part == 'ready' and check_ready or part == 'push' and check_push or check_owned
      for i = 1, #ids do check(ids[i]) end
    end
  end

  check_slice()
end
if fixes[1] then
  open_for_writing()
  if miscounted then held = 1 end
  spread()
  for i = 1, #fixes do fixes[i]() end
  -- An id may have come back to a kind of key through which a mover has looked (lib/moving.lua).
  if is(FLAG_SOURCE) then
    -- include apart: raise_mark
  end
  note_due()
  save()
end
return {following, looked, found, ready, present}
