-- include: prelude keys change
-- POP: takes the id of a shard that has been due longest as a run of a popper, whoever owns the shard. The record of the id stays in
-- `jobs`. First it does what a claim does as well: moves scheduled payloads whose deliver_at has come, and ends runs whose time
-- is over. It also moves some payloads of ids that are uniting: the owner of the shard may be dead, and no other server may come.
--
-- KEYS: the shard's (prelude)
--       3 token: the sequence and the answer of this client's last push, pop or report
-- ARGV: 1 generation
--       2 sequence of this call. The same sequence gets the same run again
--       3 fold
--       4 history_per_id
--       5 time to run in microseconds; 0: the id is done at once
--       6 the most payloads of the delivery, 1 to 1,000
--       7 '1': the caller is subscribed to the shard's channel, and will sleep if nothing is due
--       8 '1': serial_shards
--       9 max_retry_count
--       10 on_exhausted, with '+' behind it if retries_exhausted is to be told
--       11 remember_score in microseconds, 0 for none
--
-- Returns {now, next}, and if an id was taken five more, with next 0:
--   next      the microsecond at which to ask again; 0: at once; 9e15: after a message on the shard's channel
--   fence     of the run
--   id
--   record    a full record of the first payloads, with the whole error: at most 200 payloads and some 384 KiB, but one payload
--             at least. slice.lua reads more
--   beside    how many payloads the id has beside these
--   pops      how often the id was popped since it was last acknowledged, this time included
--
-- Error replies: STALE pop: a later sequence came first, so this call comes from a connection that the client has given up
local SEQUENCE, FOLD, TTR, MOST = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])
local limit, action, told = tonumber(ARGV[9]), string.match(ARGV[10] or '', '^(%l+)(%+?)$')
local REMEMBER = tonumber(ARGV[11])
history = tonumber(ARGV[4])
if not SEQUENCE or not (TTR and TTR >= 0 and TTR <= FOREVER - now) or not (MOST and MOST >= 1 and MOST <= 1000 and MOST % 1 == 0)
  or not limit or not action or #ARGV ~= 11 or not (REMEMBER and REMEMBER >= 0 and REMEMBER <= FOREVER) or not (history and history >= 0 and history <= HISTORY_MOST) then
  return error_reply('ERR wrong arguments')
end
events = history > 0 and {} or nil
remembers = REMEMBER > 0 and 1 or 0
local AT_ONCE, BYTES, HEADS, SERIAL_WAIT = 200, 1048576, 16, 100000
-- include: note spread runs record lowest scores
probe()
if REMEMBER > 0 then probe_scores() end
local paused, opened = is(FLAG_PAUSED), false

-- ---- The delivery ----

-- The first entries of a record, in their order; and how many others it has.
local function first_entries(id, r)
  local given, bytes = {}, 0
  if r.entries then
    if r.entries[2] then table.sort(r.entries, comes_before) end
    for i = 1, min(MOST, #r.entries) do given[i] = r.entries[i] end
    return given, #r.entries - #given
  end
  local most, step = min(MOST, AT_ONCE), min(50, portion(r))
  while #given < most and bytes < PORTION_BYTES do
    local part = spilled_entries(first, id, #given, min(step, most - #given))
    if not part[1] then break end
    for i = 1, #part do
      bytes = bytes + #part[i].payload + #part[i].context
      if given[1] and bytes > BYTES then return given, r.count - #given end
      given[#given + 1] = part[i]
    end
  end
  return given, r.count - #given
end

-- The record as it is delivered; the stored one if all its entries are in it.
local function deliver(id, record, r)
  local entries, left = first_entries(id, r)
  if r.entries and left == 0 then return record, entries, left end
  local out = {header({place = r.place, due = r.due, retry = r.retry, mark = r.mark, error = error_of(first, id, r)}, RECORD_FULL, #entries)}
  for i = 1, #entries do add_entry(out, entries[i]) end
  return table.concat(out), entries, left
end

local function whole(number) return format('%.0f', number) end

local function answer_with(fence, id, record, r)
  local text, entries, left = deliver(id, record, r)
  return {whole(now), '0', fence, id, text, whole(left), max(0, r.pops or 0) + 1}, entries, left
end

-- ---- The same call again ----

local token = call('GET', KEYS[3])
local last, said = string.match(token or '', '^(%d+) (.*)$')
if last and tonumber(last) > SEQUENCE then return error_reply('STALE pop') end
if last and tonumber(last) == SEQUENCE then
  local fence, id = string.match(said, '^p(%d+) (.*)$')
  if not fence then return cmsgpack.unpack(said) end
  local run, record = call('HGET', RUNNING, id), call('HGET', JOBS, id)
  if not run or sub(run, 2) ~= RUN_POPPED .. fence or not record then return {whole(now), '0'} end
  call('PEXPIRE', KEYS[3], PUSH_TOKEN_MS)
  return (answer_with(fence, id, record, read(record)))
end

-- ---- What comes before a pop ----

local crowded = false -- this call has done enough: nothing is taken, and the caller asks again at once
do
  local overdue = ends <= now and call('ZRANGEBYSCORE', OVERRUN, '-inf', whole(now), 'WITHSCORES', 'LIMIT', 0, 20) or {}
  if overdue[1] then
    -- include: probe_overdue
    probe_overdue(overdue, told == '+')
  end
  if delivers <= now then
    -- include: join scheduled move_scheduled
    opened = true
    crowded = arrive(FOLD)
  end
  if ends <= now and not overdue[1] then ends = tonumber(call('ZRANGE', OVERRUN, 0, 0, 'WITHSCORES')[2]) or FOREVER end
  if overdue[1] then
    local TELLER, has_next = '', true
    -- include: notify outcome overdue
    opened = true
    end_overdue(overdue, limit, action, told == '+')
    crowded = true
  end
  if not crowded and is(FLAG_UNFINISHED) and opened then
    crowded = true -- the next call unites: it must read its keys before the first write
  elseif not crowded and is(FLAG_UNFINISHED) then
    -- include: uniting
    opened = true
    crowded = unite_slice(FOLD) or came_back
  end
end

-- ---- Which id is the oldest that is due ----

local busy = ARGV[8] == '1' and running_count() > 0
local doubted = is(FLAG_DOUBTED)
local ready_count, due_count = call('LLEN', READY), call('ZCARD', DUE)
local wary
-- include: stale_ready

local best, soon, outdated = nil, FOREVER, {}

local function consider(key, id, record, due)
  if not best or due < best.due then best = {key = key, id = id, record = record, due = due} end
end

local function look_at_set(key, where)
  local flat = call('ZRANGE', key, 0, HEADS - 1, 'WITHSCORES')
  for i = 1, #flat, 2 do
    local id, due, record = flat[i], tonumber(flat[i + 1]), call('HGET', JOBS, flat[i])
    if due > now then
      soon = min(soon, due)
      return
    end
    if record and byte(record) % RECORD_PLACES == where and not (wary and run_of(id)) then
      consider(key, id, record, due)
      return
    end
    outdated[#outdated + 1] = {key, id}
  end
  if flat[1] then soon = 0 end
end

local passed = 0
local function look_at_ready()
  local ids = call('LRANGE', READY, 0, HEADS - 1)
  local records = ids[1] and call('HMGET', JOBS, unpack(ids)) or ids
  local runs = wary and runs_of(ids) or {}
  for i = 1, #ids do
    local record = records[i]
    if record and byte(record) % RECORD_PLACES == PLACE_READY and not runs[i] then
      consider(READY, ids[i], record, (unpack_struct('<d', record, RECORD_DUE + 1)))
      return
    end
    passed = i
  end
  soon = 0
end

if not paused and not busy and not crowded then
  look_at_set(DUE, PLACE_DUE)
  if doubted then
    look_at_set(UNPROVEN, PLACE_IN_DOUBT)
    look_at_set(SUSPECT, PLACE_IN_DOUBT)
  end
  if ready_count > 0 then look_at_ready() end
  local function probe_best()
    probe_spill(first, {best.id})
    probe_spill(morgue, {best.id})
  end
  if best and not opened then
    probe_best()
  elseif best and not pcall(probe_best) then -- this call keeps what it has written, and the next one fails
    best, crowded = nil, true
  end
end
if crowded then soon = 0 end
if busy then soon = min(soon, now + SERIAL_WAIT) end
soon = min(soon, max(delivers, 0), ends)
if soon <= now then soon = 0 end

-- ---- Taking it ----

local function leave_indexes()
  open_for_writing()
  for i = 1, #outdated do call('ZREM', outdated[i][1], outdated[i][2]) end
  if passed > 0 then call('LTRIM', READY, passed, -1) end
  if not best then return end
  if best.key == READY then call('LTRIM', READY, 1, -1) else call('ZREM', best.key, best.id) end
end

-- A record that cannot be read must not stop the shard; check.lua does the same with it.
local function bury_unreadable()
  call('HDEL', JOBS, best.id)
  bury(best.id, {{stamp = advance(), score = now / 1e6, context = '', payload = best.record}}, 'record in jobs cannot be read', 'list')
end

-- Keeps the highest score that was given to one of these entries.
local function remember_highest(entries)
  local at = #entries
  while at > 0 and not has_own_score(entries[at]) do at = at - 1 end
  if at > 0 then remember_score(best.id, entries[at].score, REMEMBER) end
end

-- Without a time to run: removes what was delivered.
local function end_at_once(r, entries, left, fence)
  processed = processed + 1
  if REMEMBER > 0 then remember_highest(entries) end
  note(best.id, EVENT_DONE, fence)
  if left == 0 then forget(first, best.id, r) return end
  if r.entries then
    for _ = 1, #entries do table.remove(r.entries, 1) end
  else
    remove_spilled(first, best.id, r, entries)
  end
  r.pops, r.mark, r.retry, r.delivered = nil, MARK_NONE, -1, true
  r.place, r.due = PLACE_DUE, min(r.due, now)
  set_error(r, '')
  place(best.id, r)
  rewrite(first, best.id, r)
end

local function take(r)
  local fence, to = advance(), now + TTR
  if r.retry >= 0 then call('ZREM', RETRY, best.id) end
  note(best.id, EVENT_POPPED, fence)
  local answer, entries, left = answer_with(whole(fence), best.id, best.record, r)
  if not entries[1] then -- its payloads were evicted, or deleted by hand
    forget(first, best.id, r)
    return {whole(now), '0'}
  end
  if TTR == 0 then
    end_at_once(r, entries, left, fence)
    return answer
  end
  call('HSET', RUNNING, best.id, (r.entries and '0' or '1') .. RUN_POPPED .. whole(fence))
  call('ZADD', OVERRUN, whole(to), best.id)
  ends = min(ends, to)
  flag_as(FLAG_ALONE, ARGV[8] == '1')
  return answer
end

-- include: owner
local answer = {whole(now), whole(soon)}
if best or outdated[1] or passed > 0 then
  opened = true
  leave_indexes()
end
if best then
  local ok, r = pcall(read, best.record)
  if ok then answer = take(r) else bury_unreadable() answer[2] = '0' end
  if ok and TTR > 0 then placed = min(placed, ends) end
end
if not answer[3] and ARGV[7] == '1' and soon > now and asleep < soon and not busy then
  if not opened then open_for_writing() end
  asleep, opened = max(asleep, soon), true
end
if opened then
  -- The owner may sleep for longer than until the end of this run, or than until an id that came back is due.
  if placed < wake then wake_owner(placed) end
  save()
end
if answer[3] then
  call('SET', KEYS[3], ARGV[2] .. ' ' .. (TTR == 0 and cmsgpack.pack(answer) or 'p' .. answer[3] .. ' ' .. answer[4]), 'PX', PUSH_TOKEN_MS)
end
return answer
