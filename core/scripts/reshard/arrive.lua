-- include: prelude keys change spread record moving scheduled scores notices parts owner
-- ARRIVE: takes the ids of a batch in that lie in this shard from now on, once for each source and sequence.
-- KEYS: the shard's
-- ARGV: 1 generation
--       2 source: number of the shard that they leave
--       3 sequence of the batch; 0: only the tick is taken over
--       4 tick of the source
--       5 fold
--       6 the largest history_per_id of the queue (events that are kept)
--       7.. id, part (depart.lua), ...: all of the batch for this shard, and that of the id ''
-- Returns {'OK'}; {'AGAIN'}: this batch was taken in before; {'MORE'}: to be sent again as it is, because many scheduled payloads are
--   left; {'SLICES', id}: payloads of this id are missing, and nothing was taken in
if not state then return error_reply('GENERATION 1') end -- its turn makes it
local source, sequence, given_tick, FOLD, kept_events = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if not (sequence and sequence >= 0 and sequence < FOREVER) or not (given_tick and given_tick >= 0 and given_tick < FOREVER)
  or not (kept_events and kept_events >= 0 and kept_events <= HISTORY_MOST) or #ARGV % 2 == 1 then return error_reply('ERR wrong arguments') end
local MORGUE_FOLD = FOLD == 'list' and 'list' or 'merge'
local ids, parts, letters, lows = {}, {}, {}, {}
for i = 7, #ARGV, 2 do
  local part, letters_there = open_part(ARGV[i + 1])
  if ARGV[i] == '' then
    lows = part.l or {}
  else
    ids[#ids + 1] = ARGV[i]
    parts[#ids], letters[#ids] = part, letters_there
  end
end
local delivers_before = delivers
local is_again = sequence > 0 and (tonumber(call('HGET', RESHARD, 'in/' .. source)) or 0) >= sequence

-- What the call may change of an id. Normally nothing is there of it, and each command for an id takes as long as writing its record.
local waiting, behind, dead = {}, {}, {}
probe()
call('ZCARD', SCHEDULED)
probe_scores()
probe_notices()
call('ZCARD', PREFIX .. 'traced')
if ids[1] then waiting, behind, dead = call('HMGET', JOBS, unpack(ids)), call('HMGET', NEXT, unpack(ids)), call('HMGET', DEAD, unpack(ids)) end
for i = 1, #ids do
  local r, corpse = parts[i].j and read(parts[i].j), parts[i].d and read(parts[i].d)
  if r and (waiting[i] or behind[i] or not r.entries or outgrows(r)) then
    probe_spill(first, {ids[i]})
    probe_spill(second, {ids[i]})
  end
  if corpse and (dead[i] or not corpse.entries or outgrows(corpse)) then probe_spill(morgue, {ids[i]}) end
  if parts[i].s or has_letter(letters[i], 's') then probe_scheduled({ids[i]}) end
  if parts[i].e then call('LLEN', PREFIX .. 'events:' .. ids[i]) end
  for k = 1, #(parts[i].u or {}), 2 do call('ZCARD', PREFIX .. 'outbox:' .. parts[i].u[k]) end
  parts[i].record, parts[i].corpse = r, corpse
end
call('HLEN', PREFIX .. 'outboxes')
for k = 2, #lows, 2 do
  if not tonumber(lows[k]) then return error_reply('ERR wrong low-water mark of an outbox') end
end

-- Are all payloads of a part there?
local function is_whole(i)
  local id, part = ids[i], parts[i]
  for letter, count in pairs({w = part.record and part.record.count, d = part.corpse and part.corpse.count, s = part.n}) do
    if has_letter(letters[i], letter) and call('ZCARD', arriving[letter].spill .. id) ~= count then return false end
  end
  return true
end
for i = 1, is_again and 0 or #ids do
  if not is_whole(i) then return {'SLICES', ids[i]} end
end

-- After a failover that has forgotten more than WAIT had said, something may be there of an id: both unite.
local runs, hash = {}, {}
-- Ids that arrive are to be refused at maxmemory, as a push is; a move that takes none along is to end then.
if sequence > 0 then call('SET', STATE, state) else open_for_writing() end
tick = max(tick, given_tick)
for k = 1, #lows, 2 do
  local low = tonumber(call('HGET', PREFIX .. 'outboxes', lows[k]) or nil) or -1
  if tonumber(lows[k + 1]) > low then call('HSET', PREFIX .. 'outboxes', lows[k], lows[k + 1]) end
end
if ids[1] and not is_again then
  if may_hold(ids, true) then spread() end
  runs = call('HMGET', RUNNING, unpack(ids))
end

-- Record r, whose spilled payloads have come as slices, gets its place in a store; known: the record that is there.
local function settle_in(store, slices, id, r, known, fold)
  if known then
    local k = read(known)
    if store == first then unplace(id, k) end
    unite(slices, id, r, store, k, fold)
  end
  if not r.entries then take_spill(slices, store, id) end
  return r
end

local function arrive_waiting(i)
  local id, r = ids[i], parts[i].record
  if runs[i] then
    settle_in(second, arriving.w, id, r, behind[i], FOLD)
    write(second, id, r, FOLD)
    return
  end
  local parked = r.place == PLACE_PARKED
  settle_in(first, arriving.w, id, r, waiting[i], FOLD)
  place(id, r, parked)
  if parked and parts[i].p then call('ZADD', PARKED, parts[i].p, id) end
  if not r.entries or outgrows(r) then
    write(first, id, r, FOLD)
  else
    hash[#hash + 1], hash[#hash + 2] = id, encode(r)
  end
end

local function arrive_dead(i)
  local id, r = ids[i], parts[i].corpse
  settle_in(morgue, arriving.d, id, r, dead[i], MORGUE_FOLD)
  write(morgue, id, r, MORGUE_FOLD)
  call('ZADD', DIED, parts[i].t or format('%.0f', r.due), id)
end

local function arrive_score(id, packed)
  local score, score_ends = unpack_struct('<dd', packed)
  local known = scores_of({id})[id]
  if score_ends <= now or known and known > score then return end
  local left = math.ceil((score_ends - now) / 1000) + 1
  call('HSET', SCORES, id, packed)
  call('ZADD', SCORE_ENDS, format('%.0f', score_ends), id)
  for _, key in ipairs({SCORES, SCORE_ENDS}) do
    if call('PTTL', key) < left then call('PEXPIRE', key, left) end
  end
end

-- given: {stamp, deliver_at, text, ...}. An entry without a text is of a payload that was deleted (delete.lua), and goes nowhere.
local function schedule_all(id, given)
  local entries, own, texts = {}, {}, {}
  for i = 1, #given, 3 do
    if given[i + 2] ~= '' then
      local stamp, time = given[i], format('%.0f', tonumber(given[i + 1]))
      local n = #own
      entries[n + 1], entries[n + 2] = time, stamp .. id
      own[n + 1], own[n + 2] = time, stamp
      texts[n + 1], texts[n + 2] = stamp, given[i + 2]
      delivers = min(delivers, tonumber(time))
    end
  end
  if not own[1] then return end
  call('ZADD', SCHEDULED, unpack(entries))
  call('ZADD', SCHED .. id, unpack(own))
  call('HSET', SCHEDMAP .. id, unpack(texts))
end

-- What was written in the source is older than what was written here.
local function arrive_events(i)
  local key, traced = PREFIX .. 'events:' .. ids[i], PREFIX .. 'traced'
  local all, later = parts[i].e, call('LRANGE', key, 0, -1)
  for k = 1, #later do all[#all + 1] = later[k] end
  call('UNLINK', key)
  call('RPUSH', key, unpack(all, max(1, #all - kept_events + 1)))
  call('PEXPIRE', key, 604800000)
  call('ZADD', traced, max(tonumber(parts[i].x), tonumber(call('ZSCORE', traced, ids[i])) or 0), ids[i])
  call('PEXPIRE', traced, 604800000)
end

-- Numbers below the low-water mark are not needed.
local function arrive_numbers(id, name, numbers)
  call('HSETNX', PREFIX .. 'outboxes', name, '0')
  local low, members = tonumber(call('HGET', PREFIX .. 'outboxes', name)) or 0, {}
  for i = 1, #numbers, 8 do
    local number = unpack_struct('>d', numbers, i)
    if number >= low then members[#members + 1], members[#members + 2] = format('%.0f', number), sub(numbers, i, i + 7) .. id end
  end
  if members[1] then call('ZADD', PREFIX .. 'outbox:' .. name, unpack(members)) end
end

for i = 1, is_again and 0 or #ids do
  local part = parts[i]
  if part.j then arrive_waiting(i) end
  if part.d then arrive_dead(i) end
  if part.s then schedule_all(ids[i], part.s) end
  if part.m then arrive_score(ids[i], part.m) end
  if part.e and kept_events > 0 then arrive_events(i) end
  for k = 1, #(part.o or {}) do
    hand_over('', part.o[k])
    flag_as(FLAG_NOTICED, true)
  end
  for k = 1, #(part.u or {}), 2 do arrive_numbers(ids[i], part.u[k], part.u[k + 1]) end
end

if hash[1] then call('HSET', JOBS, unpack(hash)) end

local more = false
do
  local left, left_bytes = 250, 1048576 -- scheduled payloads that this call may yet move, and their bytes

  -- Moves scheduled payloads that came as slices to their places, as many as may yet be moved. Are some left?
  local function schedule_slices(id)
    local slices, stamps, given = arriving.s, {}, {}
    local flat = left > 0 and call('ZRANGE', slices.spill .. id, 0, left - 1, 'WITHSCORES') or {}
    for i = 1, #flat, 2 do
      if left_bytes <= 0 then break end
      local text = call('HGET', slices.map .. id, flat[i]) or ''
      left, left_bytes = left - 1, left_bytes - #text
      stamps[#stamps + 1] = flat[i]
      given[#given + 1], given[#given + 2], given[#given + 3] = flat[i], flat[i + 1], text
    end
    if stamps[1] then
      schedule_all(id, given)
      call('ZREM', slices.spill .. id, unpack(stamps))
      call('HDEL', slices.map .. id, unpack(stamps))
    end
    return call('ZCARD', slices.spill .. id) > 0
  end

  for i = 1, #ids do
    if has_letter(letters[i], 's') and schedule_slices(ids[i]) then more = true end
  end
end

if sequence > 0 and not is_again then call('HSET', RESHARD, 'in/' .. source, format('%.0f', sequence)) end
if delivers < delivers_before then placed = min(placed, delivers) end
if placed < wake then wake_owner(placed) elseif delivers < delivers_before and is(FLAG_PAUSED) then tell_owner() end
save()
return {more and 'MORE' or is_again and 'AGAIN' or 'OK'}
