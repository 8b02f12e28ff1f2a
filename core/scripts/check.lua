-- include: prelude record admin
-- CHECK: proves a slice of what is stored; with repair, mends what can be mended without losing a payload.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part, 3 cursor ('0' at first), 4 '1' to repair, 5 fold, 6.. ids
--   parts: jobs, next, running, dead; due, parked, unproven, suspect, retry, died, overrun: read by cursor
--          ready: are these ids in the ready list, if their records say so?
--          spill, nextspill, deadspill, spillmap, nextspillmap, deadspillmap: do records own these keys of these ids?
-- Returns {cursor ('0' at the end), looked at, {finding, id, detail, '1' if repaired, ...}, ids that must be in the ready list}
local part, cursor, repair, FOLD = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local ids = {unpack(ARGV, 6)}
local found, fixes, ready = {}, {}, {}
probe()

local function find(finding, id, detail, fix)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, id, detail, (repair and fix) and '1' or '0'
  if repair and fix then fixes[#fixes + 1] = fix end
end

local function record_of(store, id, record)
  record = record or call('HGET', store.hash, id)
  if not record then return nil end
  local ok, r = pcall(read, record)
  if ok and (r.entries or r.form == 3) then return r end
  find('unreadable', id, 'record in ' .. sub(store.hash, #PREFIX + 1) .. ' cannot be read')
end

local function check_spill(store, id, r)
  if r.entries then return end
  local count = call('ZCARD', store.spill .. id)
  if count == r.count then return end
  find('payloads', id, format('record counts %d payloads, %d are stored', r.count, count), count > 0 and function()
    r.count = count
    rewrite(store, id, r)
  end)
end

local function check_index(key, id, score, finding)
  local known = call('ZSCORE', key, id)
  if known and tonumber(known) == score then return end
  local name = sub(key, #PREFIX + 1)
  find(finding, id, known and format('%s has another number', name) or format('missing in %s', name), function()
    call('ZADD', key, format('%.0f', score), id)
  end)
end

local function check_job(id, record)
  local r = record_of(first, id, record)
  if not r then return end
  check_spill(first, id, r)
  local run = call('HGET', RUNNING, id)
  if run then
    local spilled = r.entries and 0 or 1
    if digit_of(run) % 2 ~= spilled then
      find('run', id, 'the run does not say whether payloads are spilled', function()
        flagged(id, run, digit_of(run) - digit_of(run) % 2 + spilled)
      end)
    end
    return
  end
  if r.place == 0 then
    ready[#ready + 1] = id
  elseif r.place == 1 then
    check_index(DUE, id, r.due, 'index')
  elseif r.place == 2 then
    if not call('ZSCORE', PARKED, id) then check_index(PARKED, id, now, 'index') end
  else
    check_index(r.mark == SUSPECT_MARK and SUSPECT or UNPROVEN, id, r.due, 'index')
    if flags % 4 < 2 then find('state', id, 'nothing says that an id is in doubt', function() flags = flags % 2 + 2 save() end) end
  end
  if r.place ~= 2 and r.retry >= 0 then check_index(RETRY, id, r.retry, 'retry') end
end

local function check_next(id, record)
  local n = record_of(second, id, record)
  if not n then return end
  check_spill(second, id, n)
  if call('HEXISTS', RUNNING, id) == 1 then return end
  local r = record_of(first, id)
  find('behind', id, 'waits behind a run that is not there', function()
    if not r then promote(id, record) return end
    unite(first, id, r, second, n, FOLD)
    write(first, id, r, FOLD)
  end)
end

local function check_running(id, run)
  if id == '' then return end
  if not string.match(run, '^[0-7][nuso]%d+$') then find('run', id, 'run cannot be read') end
  if call('HEXISTS', JOBS, id) == 1 then return end
  local newer = call('HGET', NEXT, id)
  find('run', id, 'runs without a record', function()
    call('HDEL', RUNNING, id)
    if newer then promote(id, newer) end
  end)
end

local function check_dead(id, record)
  local r = record_of(morgue, id, record)
  if not r then return end
  check_spill(morgue, id, r)
  check_index(DIED, id, r.due, 'index')
end

-- Does an entry of an index lead to what the index is for?
local function belongs(id)
  if part == 'died' then return call('HEXISTS', DEAD, id) == 1 end
  local running = call('HEXISTS', RUNNING, id) == 1
  if part == 'overrun' then return running end
  local record = call('HGET', JOBS, id)
  if not record or running then return false end
  local r = record_of(first, id, record)
  if not r then return true end
  if part == 'retry' then return r.retry >= 0 and r.place ~= 2 end
  if part == 'due' then return r.place == 1 end
  if part == 'parked' then return r.place == 2 end
  return r.place == 3 and (r.mark == SUSPECT_MARK) == (part == 'suspect')
end

local function check_entry(key, id)
  if belongs(id) then return end
  find('stale', id, 'entry in ' .. part .. ' leads to nothing', function() call('ZREM', key, id) end)
end

-- Is a ready id in the list? It is asked from the end, where the new ones are.
local function check_ready(id)
  local record = call('HGET', JOBS, id)
  if not record or byte(record) % 4 ~= 0 or call('HEXISTS', RUNNING, id) == 1 then return end
  if call('LPOS', READY, id, 'RANK', -1) then return end
  find('index', id, 'missing in ready', function() call('RPUSH', READY, id) end)
end

-- Payloads that no record owns become its again.
local function adopt(store, id)
  local r = record_of(store, id)
  local few = r and r.entries or {}
  if not r then
    r = blank()
    if store == morgue then
      r.place = 0
      call('ZADD', DIED, format('%.0f', now), id)
    else
      place(id, r)
    end
  end
  r.entries, r.count = nil, call('ZCARD', store.spill .. id)
  for i = 1, #few do fold_entry(store, id, r, few[i], FOLD) end
  write(store, id, r, FOLD)
end

local function check_owned(id)
  local store = ({spill = first, next = second, dead = morgue})[string.match(part, '^next') or string.match(part, '^dead') or 'spill']
  local r = record_of(store, id)
  if r and not r.entries then return end
  local count, contexts = call('ZCARD', store.spill .. id), call('HLEN', store.map .. id)
  if sub(part, -3) == 'map' then
    if count == 0 and contexts > 0 then
      find('orphan', id, part .. ' belongs to no payloads', function() call('DEL', store.map .. id) end)
    end
  elseif count > 0 then
    local runs = call('HEXISTS', RUNNING, id) == 1
    local whose = (store == morgue or runs == (store == second)) and (r or call('HEXISTS', store.hash, id) == 0)
    find('orphan', id, format('%d payloads in %s belong to no record', count, part), whose and function() adopt(store, id) end)
  end
end

local HASHES = {jobs = {JOBS, check_job}, next = {NEXT, check_next}, running = {RUNNING, check_running}, dead = {DEAD, check_dead}}
local SETS = {due = DUE, parked = PARKED, unproven = UNPROVEN, suspect = SUSPECT, retry = RETRY, died = DIED, overrun = OVERRUN}
local looked, following = #ids, '0'
if HASHES[part] then
  local key, check = unpack(HASHES[part])
  local page = call('HSCAN', key, cursor, 'COUNT', 100)
  following, looked = page[1], #page[2] / 2
  for i = 1, #page[2], 2 do check(page[2][i], page[2][i + 1]) end
elseif SETS[part] then
  local page = call('ZSCAN', SETS[part], cursor, 'COUNT', 100)
  following, looked = page[1], #page[2] / 2
  for i = 1, #page[2], 2 do check_entry(SETS[part], page[2][i]) end
else
  local check = part == 'ready' and check_ready or check_owned
  for i = 1, #ids do check(ids[i]) end
end
if fixes[1] then
  open_for_writing()
  for i = 1, #fixes do fixes[i]() end
  wake_owner(now)
  save()
end
return {following, looked, found, ready}
