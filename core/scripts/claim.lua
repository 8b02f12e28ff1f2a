-- include: prelude record
-- CLAIM: takes due ids, each with all its waiting payloads, into process, oldest due first. Their records stay where
-- they are. A claim stops at 1,000 payloads or 1 MiB. An unproven or suspect id is claimed alone.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 seen: fence of the last claim whose answer the caller has (after acquire: what it said),
--       4 limit of ids, 5 doubt: 0 none, 1 one unproven id, 2 one suspect id; 6 time to run in microseconds, 0 for none, 7 fold
-- Returns {now, fence, next, unproven, suspect, paused, id, run, record, ...}: next is the microsecond at which something
--   will be due (0: more is due now), unproven and suspect when such an id is due; each 9e15 for never.
--   If seen is not the last claim, that claim is answered again and nothing is claimed.
-- Error replies: STALE owner
local limit, doubt, ttr = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if lease ~= tonumber(ARGV[2]) then return error_reply('STALE ' .. owner) end

local BYTES, PAYLOADS, SLICE = 1048576, 1000, 64
local out = {}
local function give(id, run, record)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = id, run, record
end

local function earliest(key)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(head[2]) or FOREVER
end

local function answer(more)
  local unproven, suspect = FOREVER, FOREVER
  if flags % 4 >= 2 then
    unproven, suspect = earliest(UNPROVEN), earliest(SUSPECT)
    if unproven == FOREVER and suspect == FOREVER then flags = flags - 2 end
  end
  local soon = FOREVER
  if flags % 2 == 0 then
    soon = (more or call('LLEN', READY) > 0) and 0 or earliest(DUE)
    if ttr > 0 then soon = min(soon, earliest(OVERRUN)) end
  end
  wake = flags % 2 == 0 and min(soon, unproven, suspect) or 0
  if wake <= now then wake = 0 end
  save()
  return {format('%.0f', now), format('%.0f', claimed), format('%.0f', soon), format('%.0f', unproven),
    format('%.0f', suspect), flags % 2, unpack(out)}
end

local function claim_again()
  local runs = call('HGETALL', RUNNING)
  local fence = format('%.0f', claimed)
  open_for_writing()
  for i = 1, #runs, 2 do
    if sub(runs[i + 1], 3) == fence then give(runs[i], runs[i + 1], call('HGET', JOBS, runs[i])) end
  end
  return answer(true)
end

-- Runs whose time is over come back, due now.
local function void_overrun()
  local ids = call('ZRANGEBYSCORE', OVERRUN, '-inf', format('%.0f', now), 'LIMIT', 0, 100)
  for i = 1, #ids do
    local id = ids[i]
    local run = call('HGET', RUNNING, id)
    call('ZREM', OVERRUN, id)
    if run then
      local r = read(call('HGET', JOBS, id))
      r.due, r.place = now, 1
      come_back(id, run, r, ARGV[7])
    end
  end
end

if claimed ~= tonumber(ARGV[3]) then return claim_again() end
if ttr > 0 then void_overrun() end
if flags % 2 == 1 or limit == 0 then
  open_for_writing()
  return answer(false)
end

local taken, fence = {}, nil
local function run_of(mode, record)
  return (byte(record) >= 12 and '1' or '0') .. mode .. fence
end

if doubt ~= '0' then
  local key, mode = UNPROVEN, 'u'
  if doubt == '2' then key, mode = SUSPECT, 's' end
  local id = call('ZRANGEBYSCORE', key, '-inf', format('%.0f', now), 'LIMIT', 0, 1)[1]
  open_for_writing()
  if not id then return answer(false) end
  local record = call('HGET', JOBS, id)
  call('ZREM', key, id)
  if not record then return answer(true) end
  claimed = advance()
  fence = format('%.0f', claimed)
  call('ZREM', RETRY, id)
  local run = run_of(mode, record)
  call('HSET', RUNNING, id, run)
  if ttr > 0 then call('ZADD', OVERRUN, format('%.0f', now + ttr), id) end
  give(id, run, record)
  return answer(true)
end

-- Reads the records of `ids` slice by slice and returns, call after call, the next id that really lies in this place.
local function reader(ids, where)
  local r = {at = 0, stale = {}}
  local from, records, runs = 0, {}, {}
  local function load()
    local slice = {}
    for i = r.at, min(r.at + SLICE - 1, #ids) do slice[#slice + 1] = ids[i] end
    from, records, runs = r.at - 1, call('HMGET', JOBS, unpack(slice)), call('HMGET', RUNNING, unpack(slice))
  end
  function r.advance()
    while true do
      r.at = r.at + 1
      r.id = ids[r.at]
      if not r.id then return end
      if r.at > from + #records then load() end
      r.record = records[r.at - from]
      if r.record and byte(r.record) % 4 == where and not runs[r.at - from] and not taken[r.id] then
        r.due = unpack_struct('<d', r.record, 2)
        return
      end
      r.stale[#r.stale + 1] = r.id
    end
  end
  r.advance()
  return r
end

local due = reader(call('ZRANGEBYSCORE', DUE, '-inf', format('%.0f', now), 'LIMIT', 0, limit), 1)
local ready = reader(call('LRANGE', READY, 0, limit - 1), 0)
local ids, records, retried, bytes, payloads = {}, {}, {}, 0, 0
while #ids < limit and bytes < BYTES and payloads < PAYLOADS do
  local from = due
  if not due.id or (ready.id and ready.due < due.due) then from = ready end
  local id, record = from.id, from.record
  if not id then break end
  local count = 1
  if byte(record) >= 8 then
    local retry, _, entries = unpack_struct('<i4BI4', record, 10)
    if retry >= 0 then retried[#retried + 1] = id end
    if byte(record) < 12 then count = entries end
  end
  payloads, bytes = payloads + count, bytes + #record
  ids[#ids + 1], records[#records + 1], taken[id] = id, record, true
  from.advance()
end

open_for_writing()
if ready.at > 1 then call('LTRIM', READY, ready.at - 1, -1) end
if due.at > 1 then
  local gone = due.stale
  for i = 1, #ids do
    if byte(records[i]) % 4 == 1 then gone[#gone + 1] = ids[i] end
  end
  call('ZREM', DUE, unpack(gone))
end
if not ids[1] then return answer(ready.at > 1 or due.at > 1) end
if retried[1] then call('ZREM', RETRY, unpack(retried)) end
claimed = advance()
fence = format('%.0f', claimed)
local runs, ends = {}, {}
for i = 1, #ids do
  local run = run_of('n', records[i])
  runs[2 * i - 1], runs[2 * i] = ids[i], run
  ends[2 * i - 1], ends[2 * i] = format('%.0f', now + ttr), ids[i]
  give(ids[i], run, records[i])
end
call('HSET', RUNNING, unpack(runs))
if ttr > 0 then call('ZADD', OVERRUN, unpack(ends)) end
return answer(#ids == limit or bytes >= BYTES or payloads >= PAYLOADS)
