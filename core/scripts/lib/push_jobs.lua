-- library: push_jobs - writes the jobs of a push and saves the state. KEYS and ARGV are those of push.lua. `given` is a table of what is
-- known of them already: width: in place of ARGV[5]; ids; elsewhere: see below; at: jobs of the call were left out of ARGV, which
-- count as taken, and these are the places that the others had, and behind them one more than the number of all. Afterwards n is
-- the number of ARGV's jobs that are taken, and `answer` is push.lua's.
local FOLD, WAITING, WIDTH = ARGV[3], ARGV[4], tonumber(given.width or ARGV[5])
-- While ids move: by place, m: the id of the job is not here; g: it is on its way; h: it is still in its old shard (unless.lua). away: how
-- many jobs that are; here: this is the old shard.
local elsewhere = given.elsewhere
if not WIDTH then
  local width, step = string.match(ARGV[5], '^(%d+) (%w+)$')
  WIDTH = tonumber(width)
  if not state then return error_reply('GENERATION 1') end -- its turn makes it
  if step == 'here' then elsewhere = {here = true} else tick = max(tick, tonumber(step) or 0) end
end
local LISTED = WIDTH and WIDTH > 40
if LISTED then WIDTH = WIDTH - 40 end
local REMEMBERS = WIDTH == 23 or WIDTH == 33
if REMEMBERS then WIDTH = WIDTH - 20 end
if WIDTH ~= 2 then remembers = REMEMBERS and 1 or 0 end
local NAMED = WIDTH == 13
if NAMED then WIDTH = 3 end
local n = (WIDTH == 2 or WIDTH == 3) and (#ARGV - 6) / WIDTH or 0.5
if n % 1 ~= 0 then return error_reply('ERR wrong number of arguments') end
history = tonumber(ARGV[6])
if not (history and history >= 0 and history <= HISTORY_MOST) then return error_reply('ERR wrong history') end
events = history > 0 and {} or nil
local ids = given.ids or {}
for i = #ids + 1, n do ids[i] = ARGV[7 + WIDTH * (i - 1)] end
local old = call('HMGET', JOBS, unpack(ids))
if elsewhere and elsewhere.here then
  -- include: here
  elsewhere.away = find_elsewhere(PREFIX, ids, old, elsewhere)
end
local base = max(tick + 1, now) - 1
tick = base + n
local soonest, is_earlier, is_behind = FOREVER, false, false -- is_behind: a job came behind a run of the owner's, as the first

local new, folded, scheduled, refused_places, exceptions, stale_before = 0, 0, 0, {}, {}, stale
local seen, rest, hash, list = {}, {}, {}, {}
local told = nil -- by place, where histories are kept or outcomes listed: the kind and the number of the event; that of the others is a push
local wary = WIDTH == 3 or WAITING == 'unique' and delivers < FOREVER -- a scheduled payload of an id leaves no trace in jobs
for i = 1, n do
  if not (elsewhere and elsewhere[i]) then
    local id, payload = ids[i], ARGV[8 + WIDTH * (i - 1)]
    if wary or old[i] or seen[id] or #payload > PLAIN_BYTES then
      rest[#rest + 1] = i
    else
      seen[id], new = true, new + 1
      hash[#hash + 1], hash[#hash + 2] = id, '\0' .. pack('<d', base + i) .. payload
      list[#list + 1] = id
    end
  end
end

-- The common case, which makes no function: that takes longer than the rest of a push. Nothing may be written before the
-- first write has proved its key.
if hash[1] and not rest[1] then
  -- include apart: new_jobs
end

-- All jobs of a call with options, those with a large payload, or whose ids are there already.
if rest[1] then
  -- include: spread record join scheduled
  call('LLEN', READY)
  call('ZCARD', DUE)
  told = {}
  local function tell(i, kind, number) if events or LISTED or elsewhere then told[i] = {kind, number} end end
  local zset, retries = {}, {}
  local WORDS = {'keep', 'earlier', 'later', 'replace', 'reject', 'unique'}
  local PLACES = {}
  for i = 1, #WORDS do PLACES[WORDS[i]] = i end
  local function payload_of(i) return ARGV[8 + WIDTH * (i - 1)] end
  local function options_of(i) return WIDTH == 3 and ARGV[6 + 3 * i] or '' end

  -- Which jobs are to be looked at one by one, even where nothing is there yet of their ids?
  local function is_special(i)
    if NAMED then return true end
    local options = options_of(i)
    if options == '' then return WAITING == 'unique' end
    return byte(options) >= 8 or (WORDS[byte(options, 22)] or WAITING) == 'unique'
  end

  -- What Redis has done already when the script comes here, and what a job costs it, in microseconds or so: SHA-1 of its payload and,
  -- where the record of its id outgrows its place, of that one's; the payload that it replaces is to be freed.
  local MOST = 5500
  local cost, taken = 0, n
  for i = 1, n do cost = cost + (#payload_of(i) + #options_of(i)) / 512 + (old[i] and #old[i] / 600 or 0) end
  local function cost_of(i)
    local bytes, record = #payload_of(i) + #options_of(i), old[i]
    local most = (events and 7 or 3) + bytes / 128
    if record or bytes > PLAIN_BYTES or is_special(i) then most = most + 12 end
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
    if elsewhere then
      elsewhere.away = 0
      for i = 1, n do
        if elsewhere[i] then elsewhere.away = elsewhere.away + 1 end
      end
      new = new - elsewhere.away
    end
    for k = #list, new + 1, -1 do seen[list[k]], list[k], hash[2 * k], hash[2 * k - 1] = nil, nil, nil, nil end
  end

  -- The record of a job that finds nothing waiting, and, of one that is scheduled, when it is to be delivered and its text.
  local function job(i)
    local payload, options, stamp = payload_of(i), options_of(i), base + i
    local entry = {stamp = stamp, score = stamp / 1e6, context = '', payload = payload}
    local r = {place = PLACE_READY, due = stamp, retry = -1, mark = MARK_NONE, error = '', entries = {entry}, word = WAITING}
    if options == '' then return r end
    local has, score, time, retry, word, at = unpack_struct('<Bddi4B', options)
    local delivered
    if has >= 8 then
      delivered, at = unpack_struct('<d', options, at)
      if has >= 16 then delivered = now + delivered end
      has = has % 8
    end
    entry.context, r.retry, r.word = sub(options, at), retry, WORDS[word] or WAITING
    if delivered and delivered > now then
      return r, delivered, pack('<Bddi4BI4', has, score, time, retry, PLACES[r.word], #entry.context) .. entry.context .. payload
    end
    if has % 2 == 1 then entry.score = score end
    if has >= 4 then time = now + time end
    if has >= 2 and time > now then r.due, r.place = math.floor(time), PLACE_DUE end
    return r
  end

  if not PLACES[WAITING] then return error_reply('ERR wrong on_waiting') end
  local WRONG = 'ERR wrong options'
  for j = 1, #rest do
    local options = options_of(rest[j])
    if options ~= '' then
      if #options < 22 then return error_reply(WRONG) end
      local has, score, _, _, _, at = unpack_struct('<Bddi4B', options)
      if score ~= score then return error_reply('ERR wrong score') end
      if has >= 8 and #options < 30 then return error_reply(WRONG) end
      local time = has >= 8 and unpack_struct('<d', options, at) or 0
      if not (time >= 0 and time < FOREVER - now) then return error_reply(WRONG) end
    end
  end

  -- Of the ids of jobs with a score of their own: the score that is remembered.
  local remembered = {}
  if REMEMBERS then
    -- include: note scores
    local scored = {}
    for j = 1, #rest do
      if (byte(options_of(rest[j])) or 0) % 2 == 1 then scored[#scored + 1] = ids[rest[j]] end
    end
    remembered = scores_of(scored)
  end
  local function is_stale(i)
    local options, known = options_of(i), remembered[ids[i]]
    if not known or options == '' then return false end
    local has, score = unpack_struct('<Bd', options)
    return has % 2 == 1 and score <= known
  end

  local places_of, order, large, some_special = {}, {}, {}, false
  for j = 1, #rest do
    local i = rest[j]
    local id = ids[i]
    local special = is_special(i)
    some_special = some_special or special
    if is_stale(i) then
      stale = stale + 1
      tell(i, EVENT_STALE, 1)
      if NAMED then exceptions[#exceptions + 1] = i .. '=0' end
    elseif old[i] or seen[id] or places_of[id] or special then
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
        tell(i, EVENT_PUSHED, r.due)
      else
        list[#list + 1] = id
      end
    end
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
  for j, newer in ipairs(order[1] and call('HMGET', NEXT, unpack(order)) or {}) do
    -- An error behind the first write would leave half a push, so records are read before it.
    local places, ok = places_of[order[j]], true
    local waiting = old[places[1]]
    if waiting then ok, places.waiting = pcall(read, waiting) end
    if not ok or newer and not pcall(read, newer) then
      return error_reply('ERR a record of this id cannot be read (`seriatim check` mends it): ' .. order[j])
    end
    places.newer = newer
    if held > 0 or may_spill(order[j]) then probe_spill(first, {order[j]}) probe_spill(second, {order[j]}) end
    if some_special then probe_scheduled({order[j]}) end
  end
  -- At maxmemory the first write is to be one that Redis refuses then, whatever follows.
  if state then call('SET', STATE, state) end
  local there = {} -- ids that have a record already, which a claim may hold
  for j = 1, #order do
    if old[places_of[order[j]][1]] then there[#there + 1] = order[j] end
  end
  if may_hold(there) then spread() end
  if order[1] then
    local runs = call('HMGET', RUNNING, unpack(order))
    for j = 1, #order do
      if runs[j] then
        local newer = places_of[order[j]].newer
        behind[order[j]] = newer
        is_behind = is_behind or not newer and sub(runs[j], 2, 2) ~= RUN_POPPED
      end
    end
  end
  -- include: new_jobs
  for k = 1, #large, 2 do write(first, large[k], large[k + 1], FOLD) end
  if zset[1] then call('ZADD', DUE, unpack(zset)) end
  if retries[1] then call('ZADD', RETRY, unpack(retries)) end

  -- The jobs of an id that are not refused and not scheduled. waits: something of it does; runs: it does.
  local function accepted(id, places, waits, runs)
    local jobs, is_scheduled = {}, nil
    for j = 1, #places do
      local i = places[j]
      local r, at, text = job(i)
      if r.word == 'unique' and is_scheduled == nil then is_scheduled = call('ZCARD', SCHED .. id) > 0 end
      if r.word == 'reject' and waits or r.word == 'unique' and (waits or runs or is_scheduled) then
        refused_places[#refused_places + 1] = given.at and given.at[i] or i
        tell(i, EVENT_REFUSED)
      elseif at then
        schedule(id, pack('>d', base + i), math.floor(at), text)
        tell(i, EVENT_SCHEDULED, at)
        scheduled, is_scheduled = scheduled + 1, true
      else
        r.at, waits = i, true
        jobs[#jobs + 1] = r
      end
    end
    return jobs
  end

  -- Notes which of the jobs got another arrival than their own: that of the equal payload that was there, or none.
  local function note_arrivals(jobs, kept)
    for j = 1, #jobs do
      local e = jobs[j].entries[1]
      local stamp = keeps_one(FOLD) and (kept == e.stamp and kept or 0) or e.into or e.stamp
      if stamp ~= e.stamp then exceptions[#exceptions + 1] = format('%d=%.0f', jobs[j].at, stamp) end
    end
  end

  local function join(id)
    local places, newer = places_of[id], behind[id]
    local runs = newer ~= nil
    local record = newer
    if not runs then record = old[places[1]] or call('HGET', JOBS, id) end
    local jobs = accepted(id, places, record, runs)
    for j = 1, #jobs do
      tell(jobs[j].at, (record or j > 1) and EVENT_FOLDED or EVENT_PUSHED, jobs[j].due > now and jobs[j].place == PLACE_DUE and jobs[j].due)
    end
    if not jobs[1] then return end
    local kept, soon
    if runs then kept = join_behind(id, record, jobs, FOLD) else kept, soon = join_waiting(id, record, jobs, FOLD, places.waiting) end
    soonest = min(soonest, soon or FOREVER)
    new = new + (record and 0 or 1)
    folded = folded + #jobs - (record and 0 or 1)
    if NAMED then note_arrivals(jobs, kept) end
  end

  local before = delivers
  for j = 1, #order do join(order[j]) end
  table.sort(refused_places)
  soonest = min(soonest, delivers)
  is_earlier = delivers < before
end

-- The owner of a paused shard is awake as to its `wake`, and must hear what it is to move earlier than it knows.
is_earlier = is_earlier and flags % (2 * FLAG_PAUSED) >= FLAG_PAUSED
if soonest < wake or is_earlier or is_behind then
  -- include: owner
  if is_earlier then tell_owner() else wake_owner(soonest) end
  if is_behind then tell_owner('~') end
end
placed = min(placed, soonest)
local refused_as_stale = stale - stale_before
pushed = pushed + n - (elsewhere and elsewhere.away or 0) - #refused_places - refused_as_stale
if elsewhere and elsewhere.here and new + scheduled > 0 then
  -- include apart: raise_mark
end
for i = 1, events and n or 0 do
  local kind, number = EVENT_PUSHED, nil
  if told and told[i] then kind, number = unpack(told[i]) end
  if not (elsewhere and elsewhere[i]) then events[#events + 1] = {ids[i], kind, number} end
end
-- include: save
local all_taken = given.at and given.at[n + 1] - 1 or n
local answer = all_taken .. ' ' .. new .. ' ' .. folded
if refused_places[1] then answer = answer .. ' ' .. table.concat(refused_places, ' ') end
if scheduled > 0 then answer = answer .. ' s' .. scheduled end
if refused_as_stale > 0 then answer = answer .. ' t' .. refused_as_stale end
if all_taken > n then answer = answer .. ' o' .. all_taken - n end
if elsewhere and elsewhere.here then answer = answer .. format(' k%.0f', tick) end
if elsewhere and elsewhere.away == n and n == all_taken then
  answer = answer .. ' l' .. table.concat(elsewhere, '', 1, n)
elseif (LISTED or elsewhere) and new < n then
  local LETTERS, letters = {[EVENT_FOLDED] = 'f', [EVENT_REFUSED] = 'r', [EVENT_SCHEDULED] = 's', [EVENT_STALE] = 't'}, {}
  for i = 1, given.at and all_taken or 0 do letters[i] = 'o' end
  for i = 1, n do letters[given.at and given.at[i] or i] = elsewhere and elsewhere[i] or told and told[i] and LETTERS[told[i][1]] or 'n' end
  answer = answer .. ' l' .. table.concat(letters)
end
if NAMED then answer = answer .. format(' a%.0f', base) end
if exceptions[1] then answer = answer .. ' ' .. table.concat(exceptions, ' ') end
