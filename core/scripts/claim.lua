-- include: prelude
-- CLAIM: takes due ids, each with all its waiting payloads, into process, oldest due first. Their records stay where
-- they are. A claim stops at 1,000 payloads or 1 MiB. An unproven or suspect id is claimed alone.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 seen: fence of the last claim whose answer the caller has (after acquire: what it said),
--       4 limit of ids, 5 doubt: 0 none, 1 one unproven id, 2 one suspect id; 6 time to run in microseconds, 0 for none, 7 fold
-- Returns {now, fence, next, unproven, suspect, paused, mode, id, record, ...}: next is the microsecond at which something
--   will be due (0: more is due now), unproven and suspect when such an id is due; each 9e15 for never. The run of an id is
--   '1' if its record is spilled, else '0', then mode (n, u unproven, s suspect, o died), then fence.
--   If seen is not the last claim, that claim is answered again and nothing is claimed.
-- Error replies: STALE owner
local limit, doubt, ttr = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if lease ~= tonumber(ARGV[2]) then return error_reply('STALE ' .. owner) end

local BYTES, PAYLOADS, SLICE = 1048576, 1000, 64
local HEADER = 7
local out, given, mode, spills = {0, 0, 0, 0, 0, 0, 0}, HEADER, 'n', false
local function give(id, record)
  out[given + 1], out[given + 2] = id, record
  given = given + 2
end

local function earliest(key)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(head[2]) or FOREVER
end

local function answer(more)
  local unproven, suspect = FOREVER, FOREVER
  if is(DOUBTED) then
    unproven, suspect = earliest(UNPROVEN), earliest(SUSPECT)
    flag_as(DOUBTED, unproven ~= FOREVER or suspect ~= FOREVER)
  end
  local soon, paused = FOREVER, is(PAUSED)
  if not paused then
    soon = (more or call('LLEN', READY) > 0) and 0 or earliest(DUE)
    if ttr > 0 then soon = min(soon, earliest(OVERRUN)) end
  end
  -- The owner knows of ids in doubt that are due, but may have to wait for a thread before it claims them.
  wake = not paused and min(soon, unproven > now and unproven or FOREVER, suspect > now and suspect or FOREVER) or 0
  if wake <= now then wake = 0 end
  save()
  out[1], out[2], out[3] = format('%.0f', now), format('%.0f', claimed), format('%.0f', soon)
  out[4], out[5] = format('%.0f', unproven), format('%.0f', suspect)
  out[6], out[7] = paused and 1 or 0, mode
  return out
end

-- All runs of a claim have one mode.
local function claim_again()
  local runs = call('HGETALL', RUNNING)
  local fence = format('%.0f', claimed)
  open_for_writing()
  for i = 1, #runs, 2 do
    if sub(runs[i + 1], 3) == fence then
      local record = call('HGET', JOBS, runs[i])
      mode = sub(runs[i + 1], 2, 2)
      if record then give(runs[i], record) end
    end
  end
  return answer(true)
end

-- Runs whose time is over come back, due now.
local function void_overrun()
  -- include: record
  local ids = call('ZRANGEBYSCORE', OVERRUN, '-inf', format('%.0f', now), 'LIMIT', 0, 100)
  for i = 1, #ids do
    local id = ids[i]
    local run = call('HGET', RUNNING, id)
    call('ZREM', OVERRUN, id)
    if run then
      local r = record_of_run(id)
      if r then
        r.due, r.place = now, 1
      end
      come_back(id, run, r, ARGV[7])
    end
  end
end

if claimed ~= tonumber(ARGV[3]) then return claim_again() end
if ttr > 0 then void_overrun() end
if is(PAUSED) or limit == 0 then
  open_for_writing()
  return answer(false)
end

-- Notes the runs of the ids in `out` and when their time is over.
local function run_all()
  claimed = advance()
  local fence = format('%.0f', claimed)
  local plain, spilled = '0' .. mode .. fence, '1' .. mode .. fence
  local runs = {}
  for i = HEADER + 1, given, 2 do
    runs[i - HEADER], runs[i - HEADER + 1] = out[i], spills and byte(out[i + 1]) >= 12 and spilled or plain
  end
  call('HSET', RUNNING, unpack(runs))
  if ttr > 0 then
    local ends, at = {}, format('%.0f', now + ttr)
    for i = HEADER + 1, given, 2 do ends[i - HEADER], ends[i - HEADER + 1] = at, out[i] end
    call('ZADD', OVERRUN, unpack(ends))
  end
end

if doubt ~= '0' then
  local key = UNPROVEN
  mode = 'u'
  if doubt == '2' then key, mode = SUSPECT, 's' end
  local id = call('ZRANGEBYSCORE', key, '-inf', format('%.0f', now), 'LIMIT', 0, 1)[1]
  open_for_writing()
  if not id then return answer(false) end
  local record = call('HGET', JOBS, id)
  call('ZREM', key, id)
  if not record then return answer(true) end
  call('ZREM', RETRY, id)
  give(id, record)
  spills = true
  run_all()
  return answer(true)
end

-- Entries of ready may be stale. They are not while the books balance: each id of jobs in one index, or running.
local function balanced()
  return call('HLEN', JOBS) == call('LLEN', READY) + running_count() + call('ZCARD', DUE) + call('ZCARD', PARKED)
    + call('ZCARD', UNPROVEN) + call('ZCARD', SUSPECT)
end

-- A list of candidate ids, read slice by slice: `id`, `record` and `due` are of the one at place `at`.
local taken, wary, merging = {}, true, false
local function candidates(ids, where)
  return {ids = ids, count = #ids, where = where, at = 0, from = 0, to = 0, slice = SLICE}
end

local function load(c)
  local ids, from = c.ids, c.at
  c.from, c.to = from - 1, min(from + c.slice - 1, c.count)
  c.records = call('HMGET', JOBS, unpack(ids, from, c.to))
  c.runs = wary and call('HMGET', RUNNING, unpack(ids, from, c.to))
end

-- Goes to the next id that really lies here and does not run.
local function next_candidate(c)
  local ids, count, where = c.ids, c.count, c.where
  for at = c.at + 1, count do
    c.at = at
    if at > c.to then load(c) end
    local record = c.records[at - c.from]
    local kind = record and byte(record)
    if kind and kind % 4 == where and not (wary and (c.runs[at - c.from] or taken[ids[at]])) then
      c.id, c.record, c.kind = ids[at], record, kind
      if merging then c.due = unpack_struct('<d', record, 2) end
      return
    end
  end
  c.at, c.id = count + 1, nil
end

local due = candidates(call('ZRANGEBYSCORE', DUE, '-inf', format('%.0f', now), 'LIMIT', 0, limit), 1)
local ready = candidates(call('LRANGE', READY, 0, limit - 1), 0)
wary, merging = ready.count < 8 or not balanced(), due.count > 0 and ready.count > 0
next_candidate(due)
next_candidate(ready)
local count, bytes, payloads, retried = 0, 0, 0, {}
while count < limit and bytes < BYTES and payloads < PAYLOADS do
  local c = due
  if not due.id or (ready.id and ready.due < due.due) then c = ready end
  local id, record = c.id, c.record
  if not id then break end
  local has = 1
  if c.kind >= 8 then
    local retry, _, entries = unpack_struct('<i4BI4', record, 10)
    if retry >= 0 then retried[#retried + 1] = id end
    if c.kind < 12 then has = entries else spills = true end
  end
  count, payloads, bytes = count + 1, payloads + has, bytes + #record
  if bytes < count * 1024 then c.slice = 1000 end
  if wary then taken[id] = true end
  give(id, record)
  next_candidate(c)
end

open_for_writing()
if ready.at > 1 then call('LTRIM', READY, ready.at - 1, -1) end
if due.at > 1 then call('ZREM', DUE, unpack(due.ids, 1, due.at - 1)) end
if count == 0 then return answer(ready.at > 1 or due.at > 1) end
if retried[1] then call('ZREM', RETRY, unpack(retried)) end
run_all()
return answer(count == limit or bytes >= BYTES or payloads >= PAYLOADS)
