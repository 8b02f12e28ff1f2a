-- include: prelude keys change spread record moving scheduled scores notices outboxes parts
-- DEPART: takes ids that are to lie in other shards out of this one, into a batch: they lie there until departed.lua says that they
-- have arrived. If a batch is open, it is returned instead, so any number of movers may work at once.
-- KEYS: the shard's
-- ARGV: 1 generation
--       2.. id, extra (of foreign.lua), ..., at most 100 ids; others than those that are to leave are passed over. None: an open
--           batch is asked for
--    or 2 '': ids whose run has ended since they were to leave, whatever their destinations: no claim takes them any more
-- Returns {sequence of the batch ('0': there is none), tick, ids that stay, id, part, letters, ...}: part is for arrive.lua; letters: what
--   of it goes in slices before (parts.lua). ids that stay: they run, and leave with a later batch when their run has ended, or a
--   node has to tell of them; and STAYS_BROKEN for each whose record cannot be read, or has no payloads, which stays until check
--   has mended it.
--   A batch ends at some 256 KiB, payloads in slices included, or 500 scheduled payloads in parts; an id that has more in slices
--   leaves alone. It takes no more than 256 KiB, or one, of notices. What it leaves is to be given again.
--   The id '' is the shard itself: its part is for each destination, also where no batch is open.
-- To copy payloads in slices takes as long as their bytes, but not less than `payload` of each and `sliced` of an id.
local BATCH, FEW, FEW_BYTES = {bytes = 262144, scheduled = 500, sliced = 4096, payload = 1024}, 16, 16384
local staying, taken = 0, {notice_bytes = 0, scheduled = 0} -- taken: of what goes into the batch

local function answer_of(batch)
  local answer = {'0', format('%.0f', tick), staying}
  for i = 1, #batch, 2 do
    if batch[i] == '' then
      answer[1] = batch[i + 1]
    else
      local n = #answer
      answer[n + 1], answer[n + 2], answer[n + 3] = batch[i], batch[i + 1], letters_of(batch[i + 1])
    end
  end
  local lows, n = call('HGETALL', OUTBOXES), #answer
  if lows[1] then answer[n + 1], answer[n + 2], answer[n + 3] = '', ' ' .. cmsgpack.pack({l = lows}), '' end
  return answer
end

local open_batch = call('HGETALL', LEAVING)
do
  -- Where payloads were lost since the batch was opened (evicted, removed by hand), it would never arrive: its parts count what is there.
  local STORES = {w = first, d = morgue, s = {spill = LEFT_SCHED, map = LEFT_SCHEDMAP}}
  local function recount(id, text)
    local part, letters = open_part(text)
    local left, is_other = '', false
    for letter, name in string.gmatch('wj dd sn', '(%l)(%l)') do
      local store, is_there = STORES[letter], has_letter(letters, letter)
      local count, r = is_there and call('ZCARD', store.spill .. id) or 0, is_there and letter ~= 's' and read(part[name]) or nil
      if is_there and count ~= (r and r.count or part.n) then
        is_other = true
        if r then r.count = count end
        part[name] = count > 0 and (r and spilled_head(store, id, r) or count) or nil
        if count == 0 then call('UNLINK', store.map .. id) end
      end
      if count > 0 then left = left .. letter end
    end
    return is_other and left .. ' ' .. cmsgpack.pack(part) or text
  end

  for i = 1, #open_batch, 2 do
    local id, text = open_batch[i], open_batch[i + 1]
    if id ~= '' and letters_of(text) ~= '' then
      local counted = recount(id, text)
      if counted ~= text then
        open_for_writing()
        call('HSET', LEAVING, id, counted)
        open_batch[i + 1] = counted
      end
    end
  end
end
if open_batch[1] or not ARGV[2] then return answer_of(open_batch) end
local is_foreign = foreign_test()
if not is_foreign then return answer_of({}) end
local catches = #ARGV == 2 and ARGV[2] == ''
if not catches and (#ARGV % 2 == 0 or #ARGV > 201) then return error_reply('ERR wrong number of arguments') end

local ids, extras = {}, {}
do
  local TESTED_BYTES, tested = 16384, 0
  for _, id in ipairs(catches and call('ZRANGE', PREFIX .. 'moving', 0, 49) or {}) do
    if tested < TESTED_BYTES and is_foreign(id) then ids[#ids + 1], extras[id] = id, {} end
    tested = tested + #id
  end
end
for i = 2, catches and 0 or #ARGV, 2 do
  local id, extra = ARGV[i], ARGV[i + 1]
  if is_foreign(id) then
    if not extras[id] then ids[#ids + 1], extras[id] = id, {} end
    if extra == '!' then
      staying = staying + 1
    elseif extra ~= '' then
      extra = cmsgpack.unpack(extra)
      if type(extra) ~= 'string' and not (type(extra) == 'table' and type(extra[1]) == 'string' and type(extra[2]) == 'string') then
        return error_reply('ERR wrong arguments')
      end
      table.insert(extras[id], extra)
    end
  end
end
if not ids[1] then return answer_of({}) end

-- Most ids have but a record in jobs, and each command for an id takes as long as reading that: what the shard has nothing of is not
-- searched, and what ids have in the same key is removed at once.
probe()
probe_scores()
probe_notices()
call('ZCARD', PREFIX .. 'moving')
local has = {scheduled = call('ZCARD', SCHEDULED) > 0, scores = call('HLEN', SCORES) > 0, events = call('ZCARD', PREFIX .. 'traced') > 0}
local stored = {jobs = call('HMGET', JOBS, unpack(ids)), dead = call('HMGET', DEAD, unpack(ids)), waiting = {}, corpses = {}, broken = {},
  scheduled = {}, sliced = {}}
do
  -- What a batch is larger by, about, because these payloads of an id go in slices.
  local function note_sliced(i, count, largest)
    stored.sliced[i] = stored.sliced[i] + max(BATCH.sliced, count * max(BATCH.payload, largest))
  end

  -- An error behind the first write would lose what was taken of other ids, so records are read before it. A spilled one leaves with
  -- the payloads that are there, as arrive.lua counts them; one without any stays, so that check says what was lost.
  local function read_one(i, store, records)
    local ok, r = pcall(read, records[i])
    local count = ok and not r.entries and call('ZCARD', store.spill .. ids[i])
    if count then call('HLEN', store.map .. ids[i]) end
    stored.broken[i] = stored.broken[i] or not ok or count == 0
    if count and count > 0 and count ~= r.count then
      r.count = count
      records[i] = spilled_head(store, ids[i], r)
    end
    if count then note_sliced(i, count, r.largest) end
    return r
  end

  for i = 1, #ids do
    stored.sliced[i] = 0
    if stored.jobs[i] then stored.waiting[i] = read_one(i, first, stored.jobs) end
    if stored.dead[i] then stored.corpses[i] = read_one(i, morgue, stored.dead) end
    if has.scheduled then
      local count = call('ZCARD', SCHED .. ids[i])
      call('HLEN', SCHEDMAP .. ids[i])
      local length = count > 0 and call('HSTRLEN', SCHEDMAP .. ids[i], call('ZRANGE', SCHED .. ids[i], 0, 0)[1]) or 0
      if count > FEW or count * length > FEW_BYTES then note_sliced(i, count, length) end
      stored.scheduled[i] = count
    end
    if has.events then call('LLEN', PREFIX .. 'events:' .. ids[i]) end
    for _, extra in ipairs(extras[ids[i]]) do
      if type(extra) == 'table' then call('ZCARD', OUTBOX .. extra[1]) end
    end
  end
end
open_for_writing()
if may_hold(ids, true) then spread() end
local runs = call('HMGET', RUNNING, unpack(ids))

local removals = {} -- by key: {command, key, member, ...}
local function remove(command, key, member)
  removals[key] = removals[key] or {command, key}
  table.insert(removals[key], member)
end

local function take_waiting(id, record, r, part)
  part.j = record
  if r.place == PLACE_PARKED then part.p = call('ZSCORE', PARKED, id) end
  unplace(id, r, remove)
  remove('HDEL', JOBS, id)
  return r.entries and '' or 'w'
end

local function take_dead(id, record, r, part)
  part.d, part.t = record, call('ZSCORE', DIED, id)
  remove('HDEL', DEAD, id)
  remove('ZREM', DIED, id)
  return r.entries and '' or 'd'
end

local function take_scheduled(id, count, part)
  if count == 0 then return '' end
  local flat = count <= FEW and call('ZRANGE', SCHED .. id, 0, -1, 'WITHSCORES') or {}
  local stamps, times, size = {}, {}, 0
  for i = 1, #flat, 2 do
    stamps[#stamps + 1], times[#times + 1] = flat[i], flat[i + 1]
    size = size + call('HSTRLEN', SCHEDMAP .. id, flat[i])
  end
  if stamps[1] and size <= FEW_BYTES then
    local texts, given = call('HMGET', SCHEDMAP .. id, unpack(stamps)), {}
    for i = 1, #stamps do given[3 * i - 2], given[3 * i - 1], given[3 * i] = stamps[i], times[i], texts[i] or '' end
    part.s = given
    unschedule(id, stamps)
    taken.scheduled = taken.scheduled + #stamps
    return ''
  end
  part.n = count
  call('RENAME', SCHED .. id, LEFT_SCHED .. id)
  if call('EXISTS', SCHEDMAP .. id) == 1 then call('RENAME', SCHEDMAP .. id, LEFT_SCHEDMAP .. id) end
  return 's'
end

-- What is too much for this batch stays; the next scan lists it again.
local function take_notice(number, part)
  if taken.notice_bytes >= BATCH.bytes then return end
  local notice = call('ZREM', TELLERS, teller('', number)) == 1 and call('HGET', NOTICES, number)
  if not notice then return end
  taken.notice_bytes = taken.notice_bytes + #notice
  part.o = part.o or {}
  part.o[#part.o + 1] = notice
  call('HDEL', NOTICES, number)
end

local function take_numbers(id, name, numbers, part)
  local found = {}
  for i = 1, #numbers, 8 do
    local number = sub(numbers, i, i + 7)
    if call('ZREM', OUTBOX .. name, number .. id) == 1 then found[#found + 1] = number end
  end
  if not found[1] then return end
  part.u = part.u or {}
  table.insert(part.u, name)
  table.insert(part.u, table.concat(found))
end

local function take_beside(id, part)
  part.m = has.scores and call('HGET', SCORES, id) or nil
  if part.m then
    remove('HDEL', SCORES, id)
    remove('ZREM', SCORE_ENDS, id)
  end
  local told = has.events and call('LRANGE', PREFIX .. 'events:' .. id, 0, -1) or {}
  if told[1] then part.e, part.x = told, call('ZSCORE', PREFIX .. 'traced', id) or format('%.0f', now) end
  if has.events then
    call('UNLINK', PREFIX .. 'events:' .. id)
    remove('ZREM', PREFIX .. 'traced', id)
  end
  for _, extra in ipairs(extras[id]) do
    if type(extra) == 'string' then take_notice(extra, part) else take_numbers(id, extra[1], extra[2], part) end
  end
end

local batch, bytes = {}, 0
for i = 1, #ids do
  local id = ids[i]
  if runs[i] then
    staying = staying + 1
    if runs[i] ~= '' and digit_of(runs[i]) < RUN_TO_LEAVE then
      call('HSET', RUNNING, id, char(48 + digit_of(runs[i]) + RUN_TO_LEAVE) .. sub(runs[i], 2))
    end
  elseif stored.broken[i] then
    staying = staying + STAYS_BROKEN
  elseif bytes < BATCH.bytes and taken.scheduled < BATCH.scheduled and (not batch[1] or bytes + stored.sliced[i] <= BATCH.bytes) then
    local part, letters = {}, ''
    if stored.jobs[i] then letters = take_waiting(id, stored.jobs[i], stored.waiting[i], part) end
    if stored.dead[i] then letters = letters .. take_dead(id, stored.dead[i], stored.corpses[i], part) end
    letters = letters .. take_scheduled(id, stored.scheduled[i] or 0, part)
    take_beside(id, part)
    if next(part) then
      local text = letters .. ' ' .. cmsgpack.pack(part)
      bytes = bytes + #id + #text + stored.sliced[i]
      batch[#batch + 1], batch[#batch + 2] = id, text
    end
  end
end
for _, words in pairs(removals) do call(unpack(words)) end
note_delivers()
if call('ZCARD', TELLERS) == 0 then flag_as(FLAG_NOTICED, false) end
if batch[1] then
  batch[#batch + 1], batch[#batch + 2] = '', format('%.0f', advance())
  call('HSET', LEAVING, unpack(batch))
end
save()
return answer_of(batch)
