-- include: prelude
-- PUSH: adds jobs of one shard, folding each into its id. At most 1,000 jobs a call.
-- KEYS: the shard's (prelude), 15 token: what this client pushed last
-- ARGV: 1 generation, 2 sequence of this call, 3 fold, 4 on_waiting, 5 values a job: 2, or 3 when any has options,
--       then per job: id, payload, options ('' or packed: has B (1 score, 2 due, 4 delay), score d, time d (microseconds),
--       retry_count i4, on_waiting B (0: the queue's), context)
-- Returns 'taken new folded', followed by the places (from 1) of refused jobs. taken: that number of jobs, from the first, are written, or
--   refused; fewer than were given where ids that are there already cost much. The caller sends the others in another call. The
--   same sequence again returns the same answer, and is remembered anew.
-- Error replies: STALE push (a later sequence came first: this one is an echo of a dead connection)
local SEQUENCE, FOLD, WAITING, WIDTH = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local token = call('GET', KEYS[15])
if token then
  local sequence, answer = string.match(token, '^(%d+) (.*)$')
  if sequence == SEQUENCE then
    call('PEXPIRE', KEYS[15], 60000)
    return answer
  end
  if tonumber(sequence) > tonumber(SEQUENCE) then return error_reply('STALE push') end
end

local n = (WIDTH == 2 or WIDTH == 3) and (#ARGV - 5) / WIDTH or 0.5
if n % 1 ~= 0 then return error_reply('ERR wrong number of arguments') end
local ids = {}
for i = 1, n do ids[i] = ARGV[6 + WIDTH * (i - 1)] end
local old = call('HMGET', JOBS, unpack(ids))
local base = max(tick + 1, now) - 1
tick = base + n
local soonest = FOREVER

local PLAIN = 2000 -- bytes of a payload that stays in the record; see LARGE in record.lua
local new, folded, refused_places, seen, rest, hash, list = 0, 0, {}, {}, {}, {}, {}
for i = 1, n do
  local id, payload = ids[i], ARGV[7 + WIDTH * (i - 1)]
  if WIDTH == 3 or old[i] or seen[id] or #payload > PLAIN then
    rest[#rest + 1] = i
  else
    seen[id], new = true, new + 1
    hash[#hash + 1], hash[#hash + 2] = id, '\0' .. pack('<d', base + i) .. payload
    list[#list + 1] = id
  end
end

-- The common case, which makes no function: that takes longer than the rest of a push. Nothing may be written before the
-- first write has proved its key.
if hash[1] and not rest[1] then
  call('RPUSH', READY, unpack(list))
  call('HSET', JOBS, unpack(hash))
  soonest = 0
end

-- All jobs of a call with options, those with a large payload, or whose ids are there already.
if rest[1] then
  -- include: spread record
  call('LLEN', READY)
  call('ZCARD', DUE)
  local zset, retries = {}, {}
  local WORDS = {'keep', 'earlier', 'later', 'replace', 'reject', 'unique'}
  local function payload_of(i) return ARGV[7 + WIDTH * (i - 1)] end
  local function options_of(i) return WIDTH == 3 and ARGV[5 + 3 * i] or '' end

  -- What Redis has done already when the script comes here, and what a job costs it, in microseconds or so: SHA-1 of its payload and,
  -- where the record of its id outgrows its place, of that one's; the payload that it replaces is to be freed.
  local MOST = 5500
  local cost, taken = 0, n
  for i = 1, n do cost = cost + (#payload_of(i) + #options_of(i)) / 512 + (old[i] and #old[i] / 600 or 0) end
  local function cost_of(i)
    local bytes, record = #payload_of(i) + #options_of(i), old[i]
    local most = 3 + bytes / 128
    if record or bytes > PLAIN then most = most + 12 end
    if record then most = most + #record / 64 end
    if record and keeps_one(FOLD) and byte(record) >= RECORD_SPILLED then most = most + 100 end
    return most
  end

  -- Takes no more of the jobs than some 8 ms of Redis allow, but one at least.
  for i = 1, n do
    cost = cost + cost_of(i)
    if cost > MOST and i > 1 then
      taken = i - 1
      break
    end
  end
  if taken < n then
    n, tick = taken, base + taken
    while rest[1] and rest[#rest] > n do rest[#rest] = nil end
    new = n - #rest
    for k = #list, new + 1, -1 do seen[list[k]], list[k], hash[2 * k], hash[2 * k - 1] = nil, nil, nil, nil end
  end

  -- The record of a job that finds nothing waiting, and its on_waiting word.
  local function job(i)
    local payload, options, stamp = payload_of(i), options_of(i), base + i
    local entry = {stamp = stamp, score = stamp / 1e6, context = '', payload = payload}
    local r = {place = PLACE_READY, due = stamp, retry = -1, mark = MARK_NONE, error = '', entries = {entry}}
    if options == '' then return r, WAITING end
    local has, score, time, retry, word, at = unpack_struct('<Bddi4B', options)
    entry.context, r.retry = sub(options, at), retry
    if has % 2 == 1 then entry.score = score end
    if has >= 4 then time = now + time end
    if has >= 2 and time > now then r.due, r.place = math.floor(time), PLACE_DUE end
    return r, WORDS[word] or WAITING
  end

  for j = 1, #rest do
    local options = options_of(rest[j])
    if options ~= '' then
      if #options < 22 then return error_reply('ERR wrong options') end
      local _, score = unpack_struct('<Bd', options)
      if score ~= score then return error_reply('ERR wrong score') end
    end
  end

  local places_of, order, large = {}, {}, {}
  for j = 1, #rest do
    local i = rest[j]
    local id = ids[i]
    if old[i] or seen[id] then
      if not places_of[id] then places_of[id], order[#order + 1] = {}, id end
      table.insert(places_of[id], i)
    else
      local r = job(i)
      seen[id], new = true, new + 1
      if outgrows(r) then
        probe_spill(first, {id})
        large[#large + 1], large[#large + 2] = id, r
      else
        hash[#hash + 1], hash[#hash + 2] = id, encode(r)
      end
      if r.retry >= 0 then retries[#retries + 1], retries[#retries + 2] = r.retry, id end
      if r.place == PLACE_DUE then
        zset[#zset + 1], zset[#zset + 2] = format('%.0f', r.due), id
        soonest = min(soonest, r.due)
      else
        list[#list + 1] = id
      end
    end
  end

  -- May a claim hold one of these ids? A few are looked for, of many it is taken for granted.
  local function may_run(these)
    local old_ones = {}
    for j = 1, #these do
      if old[places_of[these[j]][1]] then old_ones[#old_ones + 1] = these[j] end
    end
    if held == 0 or not old_ones[1] then return false end
    if #old_ones > 8 then return true end
    local claims = call('HVALS', CLAIMS)
    for i = 1, #claims do
      for j = 1, #old_ones do
        if byte(claims[i]) ~= SPREAD and string.find(claims[i], old_ones[j], 1, true) then return true end
      end
    end
    return false
  end

  -- Which of these ids may have payloads outside of their record, or will?
  local function may_spill(id)
    local places = places_of[id]
    local record = old[places[1]]
    if not record or byte(record) >= RECORD_SPILLED then return true end
    local bytes = #record
    for j = 1, #places do bytes = bytes + 32 + #payload_of(places[j]) + #options_of(places[j]) end
    return bytes > SPILL
  end

  local behind = {} -- of the ids that run: the record behind the run, or false
  call('ZCARD', RETRY) call('ZCARD', UNPROVEN) call('ZCARD', SUSPECT) call('HLEN', RUNNING) call('HLEN', CLAIMS) call('HLEN', NEXT)
  for j = 1, #order do
    if held > 0 or may_spill(order[j]) then probe_spill(first, {order[j]}) probe_spill(second, {order[j]}) end
  end
  -- At maxmemory the first write is to be one that Redis refuses then, whatever follows.
  if state then call('SET', STATE, state) end
  if may_run(order) then spread() end
  if order[1] then
    local runs, nexts = call('HMGET', RUNNING, unpack(order)), call('HMGET', NEXT, unpack(order))
    for j = 1, #order do
      if runs[j] then behind[order[j]] = nexts[j] end
    end
  end
  if hash[1] then call('HSET', JOBS, unpack(hash)) end
  for k = 1, #large, 2 do write(first, large[k], large[k + 1], FOLD) end
  if list[1] then
    call('RPUSH', READY, unpack(list))
    soonest = 0
  end
  if zset[1] then call('ZADD', DUE, unpack(zset)) end
  if retries[1] then call('ZADD', RETRY, unpack(retries)) end

  local function moved(word, due, asked)
    if word == 'earlier' then return min(due, asked) end
    if word == 'later' then return max(due, asked) end
    if word == 'replace' then return asked end
    return due
  end

  -- Unites jobs with what waits behind the run of an id.
  local function fold_running(id, places)
    local more, newer = {}, behind[id] and read(behind[id])
    for j = 1, #places do
      local r, word = job(places[j])
      if word == 'unique' or newer and word == 'reject' then
        refused_places[#refused_places + 1] = places[j]
      elseif newer then
        more[#more + 1] = r.entries[1]
        newer.due = moved(word, newer.due, r.due)
        folded = folded + 1
      else
        newer, new = r, new + 1
      end
      if word == 'earlier' then newer.mark = MARK_EARLIER end
    end
    if not newer then return end
    fold_entries(second, id, newer, more, FOLD)
    write(second, id, newer, FOLD)
  end

  -- Unites jobs with an id that waits.
  local function fold_waiting(id, places)
    local w, more, is_moved = read(old[places[1]] or call('HGET', JOBS, id)), {}, false
    for j = 1, #places do
      local r, word = job(places[j])
      if word == 'reject' or word == 'unique' then
        refused_places[#refused_places + 1] = places[j]
      else
        local due = moved(word, w.due, r.due)
        if due ~= w.due and w.place ~= PLACE_PARKED and (w.place ~= PLACE_READY or due > now) then
          if not is_moved then unplace(id, w) end
          w.due, w.place, is_moved = due, PLACE_DUE, true
        end
        more[#more + 1] = r.entries[1]
        folded = folded + 1
      end
    end
    if not more[1] then return end
    fold_entries(first, id, w, more, FOLD)
    if is_moved then
      place(id, w)
      soonest = min(soonest, w.due)
    end
    write(first, id, w, FOLD)
  end

  for j = 1, #order do
    local id = order[j]
    if behind[id] ~= nil then fold_running(id, places_of[id]) else fold_waiting(id, places_of[id]) end
  end
  table.sort(refused_places)
end

if soonest < wake then
  -- include: owner
  wake_owner(soonest)
end
pushed = pushed + n - #refused_places
-- include: save
local answer = n .. ' ' .. new .. ' ' .. folded
if refused_places[1] then answer = answer .. ' ' .. table.concat(refused_places, ' ') end
call('SET', KEYS[15], SEQUENCE .. ' ' .. answer, 'PX', 60000)
return answer
