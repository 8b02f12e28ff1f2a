-- library: record - how an id's payloads are stored, folded and indexed
--
-- A record is: kind B = place + form (model/stored.h names the numbers), then by form
--   0 plain    stamp d, payload                       score = stamp / 1e6, due = stamp
--   4 scored   stamp d, score d, payload              due = stamp
--   8 full     due d, retry_count i4, mark B, count I4, error I4+bytes, then count entries:
--              stamp d, score d, context I4+bytes, payload I4+bytes
--  12 spilled  as full without entries, but with first d, last d, largest I4: no payload arrived before `first` or after
--              `last` (stamps), none has more bytes than `largest`, its context included. The payloads lie in the zset
--              spill:ID, member = stamp >d + payload, and the hash spillmap:ID holds 'i' + sha1(payload) -> stamp (fold
--              merge), 'c' + stamp -> context, and 'e' -> the whole error where the record has but the beginning of it
-- A record spills when it has more than one payload and outgrows SPILL bytes, or has one and outgrows LARGE bytes. So what
-- scripts read of many ids at once is small, whatever the size of payloads, contexts and errors.
-- place: 0 ready, 1 due, 2 parked, 3 in doubt (unproven or suspect). mark: 0 none, 1 unproven, 2 suspect,
-- 4 (in next only) its due time was asked for by `earlier`; plus 8 when the error goes on in the map, plus 16 when a
-- run of the id failed, was snoozed or had a checkpoint, or it comes from the morgue, plus 32 when it was popped and not
-- acknowledged: the record then ends with the number of these pops, i4. Times are microseconds.
-- include: flags
local SPILL, LARGE = 1024, 2048
local ERROR_HEAD = 256 -- bytes of an error that stay in a spilled record
local PORTION, PORTION_BYTES = 250, 393216 -- a script call reads or moves no more payloads, or one that is larger
local HEADER, TAIL = '<di4BI4I4c0', '<ddI4'
local first = {hash = JOBS, spill = PREFIX .. 'spill:', map = PREFIX .. 'spillmap:'}
local second = {hash = NEXT, spill = PREFIX .. 'nextspill:', map = PREFIX .. 'nextspillmap:'}
local morgue = {hash = DEAD, spill = PREFIX .. 'deadspill:', map = PREFIX .. 'deadspillmap:'}

local UNITING = PREFIX .. 'uniting' -- zset id -> microseconds; see unite_later

-- A key of the wrong type ends the script here, before anything is written.
local function probe()
  call('HLEN', JOBS) call('LLEN', READY) call('HLEN', RUNNING) call('HLEN', NEXT) call('HLEN', DEAD) call('HLEN', CLAIMS)
  local sets = {DUE, RETRY, DIED, PARKED, UNPROVEN, SUSPECT, OVERRUN, UNITING}
  for i = 1, #sets do call('ZCARD', sets[i]) end
end

local function probe_spill(store, ids)
  for i = 1, #ids do call('ZCARD', store.spill .. ids[i]) call('HLEN', store.map .. ids[i]) end
end

local function read(record)
  local kind = byte(record)
  local r = {place = kind % RECORD_PLACES, form = kind - kind % RECORD_PLACES}
  if r.form < RECORD_FULL then
    local stamp, score, at = unpack_struct('<d', record, RECORD_DUE + 1), nil, 10
    if r.form == RECORD_SCORED then score, at = unpack_struct('<d', record, 10), 18 end
    r.due, r.retry, r.mark, r.error = stamp, -1, MARK_NONE, ''
    r.entries = {{stamp = stamp, score = score or stamp / 1e6, context = '', payload = sub(record, at)}}
    return r
  end
  local count, at
  r.due, r.retry, r.mark, count, r.error, at = unpack_struct(HEADER, record, RECORD_DUE + 1)
  r.count = count
  if r.mark >= MARK_POPPED then
    r.pops = unpack_struct('<i4', record, #record - 3)
    r.mark = r.mark % MARK_POPPED
  end
  r.delivered = r.mark >= MARK_DELIVERED
  r.mark = r.mark % MARK_DELIVERED
  if r.form == RECORD_SPILLED then
    r.first, r.last, r.largest = unpack_struct(TAIL, record, at)
    r.cut = r.mark >= MARK_CUT
    r.mark = r.mark % MARK_CUT
    return r
  end
  r.entries = {}
  for i = 1, count do
    local e = {}
    e.stamp, e.score, e.context, e.payload, at = unpack_struct('<ddI4c0I4c0', record, at)
    r.entries[i] = e
  end
  return r
end

-- What a record ends with.
local function pops_of(r) return r.pops and pack('<i4', r.pops) or '' end

local function header(r, form, count)
  local mark = r.mark + (r.delivered and MARK_DELIVERED or 0) + (r.pops and MARK_POPPED or 0) + (r.cut and MARK_CUT or 0)
  return char(r.place + form) .. pack(HEADER, r.due, r.retry, mark, count, #r.error, r.error)
end

-- The whole error of a record.
local function error_of(store, id, r) return r.cut and call('HGET', store.map .. id, 'e') or r.error end

local function set_error(r, text) r.error, r.cut = text, false end

-- A spilled record as it is stored; a long error goes into the map.
local function spilled_head(store, id, r)
  if #r.error > ERROR_HEAD and not r.cut then
    call('HSET', store.map .. id, 'e', r.error)
    r.error, r.cut = sub(r.error, 1, ERROR_HEAD), true
  end
  return header(r, RECORD_SPILLED, r.count) .. pack(TAIL, r.first, r.last, r.largest) .. pops_of(r)
end

-- How many payloads of a spilled record a call reads or moves.
local function portion(r) return max(1, min(PORTION, math.floor(PORTION_BYTES / max(1, r.largest)))) end

-- Is a record longer than what one call reads or moves?
local function is_long(r) return not r.entries and r.count > portion(r) end

-- Adds an entry of a full record to the texts that the caller joins. A large payload stays a text of its own: struct.pack copies byte
-- by byte.
local function add_entry(out, e)
  if #e.payload < 1024 then
    out[#out + 1] = pack('<ddI4c0I4c0', e.stamp, e.score, #e.context, e.context, #e.payload, e.payload)
  else
    out[#out + 1] = pack('<ddI4', e.stamp, e.score, #e.context)
    out[#out + 1] = e.context
    out[#out + 1] = pack('<I4', #e.payload)
    out[#out + 1] = e.payload
  end
end

local function is_plain(r)
  local e = r.entries[1]
  return e and not r.entries[2] and r.due == e.stamp and r.retry == -1 and r.mark == MARK_NONE and not r.delivered and not r.pops and r.error == '' and e.context == ''
end

local function encode(r)
  if is_plain(r) then
    local e = r.entries[1]
    if e.score == e.stamp / 1e6 then return char(r.place) .. pack('<d', e.stamp) .. e.payload end
    return char(r.place + RECORD_SCORED) .. pack('<dd', e.stamp, e.score) .. e.payload
  end
  local out = {header(r, RECORD_FULL, #r.entries)}
  for i = 1, #r.entries do add_entry(out, r.entries[i]) end
  out[#out + 1] = pops_of(r)
  return table.concat(out)
end

local function digest_of(e)
  e.digest = e.digest or 'i' .. redis.sha1hex(e.payload)
  return e.digest
end

-- Was the score of a stored payload given with its push? Else it is the time of its arrival or its deliver_at.
local function has_own_score(e)
  if e.score == e.stamp / 1e6 then return false end
  return byte(e.context) ~= CONTEXT_DELIVERED or #e.context < CONTEXT_HEAD or unpack_struct('<d', e.context, 2) ~= e.score
end

-- Two equal payloads become one, with the stamp and the context of the one that arrived first, `early`, and the smaller score. In a
-- queue with remember_score it gets the larger score where both were given, else it counts as one without a score of its own: so it is
-- not removed as stale as long as one of both pushes is not stale.
local function fold_score(early, late)
  local score = min(early.score, late.score)
  if remembers == 1 then
    if has_own_score(early) and has_own_score(late) then
      score = max(early.score, late.score)
    else
      local context = byte(early.context) == CONTEXT_DELIVERED and sub(early.context, CONTEXT_HEAD + 1) or early.context
      early.context = score == early.stamp / 1e6 and context or char(CONTEXT_DELIVERED) .. pack('<d', score) .. context
    end
  end
  early.score = score
end

-- Adds an entry to a spilled record; true when an equal payload was there (fold_score says what it keeps).
local function spill_entry(store, id, e, fold)
  local stamp, folded = pack('>d', e.stamp), false
  if fold == 'merge' then
    local digest = digest_of(e)
    local known = call('HGET', store.map .. id, digest)
    local score = known and tonumber(call('ZSCORE', store.spill .. id, known .. e.payload))
    local old = score and {stamp = unpack_struct('>d', known), score = score}
    if old then old.context = remembers == 1 and call('HGET', store.map .. id, 'c' .. known) or '' end
    if old and old.stamp <= e.stamp then
      local context = old.context
      fold_score(old, e)
      if old.score ~= score then call('ZADD', store.spill .. id, format('%.17g', old.score), known .. e.payload) end
      if old.context ~= context then call('HSET', store.map .. id, 'c' .. known, old.context) end
      e.into = old.stamp
      return true
    end
    if old then
      call('ZREM', store.spill .. id, known .. e.payload)
      call('HDEL', store.map .. id, 'c' .. known)
      fold_score(e, old)
      folded = true
    end
    call('HSET', store.map .. id, digest, stamp)
  end
  call('ZADD', store.spill .. id, format('%.17g', e.score), stamp .. e.payload)
  if e.context ~= '' then call('HSET', store.map .. id, 'c' .. stamp, e.context) end
  return folded
end

-- Adds entries to a spilled record, new ones all at once. Returns how many were new.
local function spill_entries(store, id, entries, fold)
  local added, seen, rest = 0, {}, {}
  for from = 1, #entries, 500 do
    local digests, known, members, fields = {}, {}, {}, {}
    local to = min(from + 499, #entries)
    if fold == 'merge' then
      for i = from, to do digests[i - from + 1] = digest_of(entries[i]) end
      known = call('HMGET', store.map .. id, unpack(digests))
    end
    for i = from, to do
      local e, digest = entries[i], digests[i - from + 1]
      if digest and (known[i - from + 1] or seen[digest]) then
        rest[#rest + 1] = e
      else
        local stamp = pack('>d', e.stamp)
        added = added + 1
        members[#members + 1], members[#members + 2] = format('%.17g', e.score), stamp .. e.payload
        if digest then fields[#fields + 1], fields[#fields + 2], seen[digest] = digest, stamp, true end
        if e.context ~= '' then fields[#fields + 1], fields[#fields + 2] = 'c' .. stamp, e.context end
      end
    end
    if members[1] then call('ZADD', store.spill .. id, unpack(members)) end
    if fields[1] then call('HSET', store.map .. id, unpack(fields)) end
  end
  for i = 1, #rest do
    if not spill_entry(store, id, rest[i], fold) then added = added + 1 end
  end
  return added
end

-- The fold modes that keep one payload of an id: `last` that with the highest score, of equal scores the latest to arrive; `first`
-- that with the lowest score, of equal scores the first to arrive.
local function keeps_one(fold) return fold == 'last' or fold == 'first' end

-- In a queue that keeps one payload of an id: is it e rather than other?
local function is_kept(e, other, fold)
  if e.score ~= other.score then return (e.score > other.score) == (fold == 'last') end
  return (e.stamp > other.stamp) == (fold == 'last')
end

-- Adds an entry to a record that is not spilled.
local function fold_entry(r, e, fold)
  local entries, old = r.entries, nil
  if keeps_one(fold) then
    if not entries[1] or is_kept(e, entries[1], fold) then entries[1] = e end
    return
  end
  if fold == 'merge' then
    if not r.by_payload then
      r.by_payload = {}
      for i = #entries, 1, -1 do r.by_payload[entries[i].payload] = entries[i] end
    end
    old = r.by_payload[e.payload]
    r.by_payload[e.payload] = old or e
  end
  if not old then
    entries[#entries + 1] = e
    return
  end
  if e.stamp < old.stamp then
    fold_score(e, old)
    old.stamp, old.score, old.context = e.stamp, e.score, e.context
  else
    fold_score(old, e)
  end
  e.into = old.stamp
end

-- The bounds in the head of a spilled record hold for these entries, too. fold_score may make a context longer by CONTEXT_HEAD bytes.
local function note_bounds(r, entries)
  local more = remembers == 1 and CONTEXT_HEAD or 0
  for i = 1, #entries do
    local e = entries[i]
    r.first, r.last = min(r.first or e.stamp, e.stamp), max(r.last or e.stamp, e.stamp)
    r.largest = max(r.largest or 0, #e.payload + #e.context + more)
  end
end

-- For payloads that nobody has noted.
local function widen_bounds(r) r.first, r.last, r.largest = 0, tick, PORTION_BYTES end

-- In a queue that keeps one payload of an id: is it e rather than all that a spilled record holds? The record is not read.
local function displaces(store, id, r, e, fold)
  local key, bound, last = store.spill .. id, format('%.17g', e.score), fold == 'last'
  local better = last and call('ZCOUNT', key, '(' .. bound, '+inf') or call('ZCOUNT', key, '-inf', '(' .. bound)
  if better > 0 then return false end
  if last and e.stamp > r.last or not last and e.stamp < r.first then return true end
  return call('ZCOUNT', key, bound, bound) == 0
end

-- A spilled record without its payloads, which the caller has or gives up.
local function unspill(store, id, r)
  set_error(r, error_of(store, id, r))
  call('UNLINK', store.spill .. id, store.map .. id)
  r.entries, r.count, r.first, r.last, r.largest = {}, nil, nil, nil, nil
end

-- Adds entries to record r by the queue's fold mode.
local function fold_entries(store, id, r, entries, fold)
  for i = 1, #entries do
    local e = entries[i]
    if not r.entries and keeps_one(fold) and displaces(store, id, r, e, fold) then unspill(store, id, r) end
    if r.entries then fold_entry(r, e, fold) end
  end
  if not r.entries and not keeps_one(fold) then
    note_bounds(r, entries)
    r.count = r.count + spill_entries(store, id, entries, fold)
  end
end

local function spill_out(store, id, r, fold)
  note_bounds(r, r.entries)
  r.count = spill_entries(store, id, r.entries, fold)
  r.entries = nil
end

-- Does a record that is to be stored outgrow its place among the heads?
local function outgrows(r)
  local entries = r.entries
  local bytes = 21 + #r.error
  for i = 1, #entries do bytes = bytes + 24 + #entries[i].context + #entries[i].payload end
  return bytes > LARGE or bytes > SPILL and entries[2] ~= nil
end

-- Stores record r of an id, spilling its payloads to a zset of their own when they grow.
local function write(store, id, r, fold)
  if r.entries and outgrows(r) then spill_out(store, id, r, fold) end
  call('HSET', store.hash, id, r.entries and encode(r) or spilled_head(store, id, r))
end

-- Is no payload of a record left?
local function empty(r) return r.entries and not r.entries[1] or r.count == 0 end

local function forget(store, id, r)
  call('HDEL', store.hash, id)
  if not r.entries then call('UNLINK', store.spill .. id, store.map .. id) end
end

-- Stores a record of which no more than its header changed.
local function rewrite(store, id, r)
  call('HSET', store.hash, id, r.entries and encode(r) or spilled_head(store, id, r))
end

-- Entries of a spilled record, at most `count`, from this place (0 is the first).
local function spilled_entries(store, id, from, count)
  local entries, keys, flat = {}, {}, call('ZRANGE', store.spill .. id, from, from + count - 1, 'WITHSCORES')
  for i = 1, #flat, 2 do
    keys[#keys + 1] = 'c' .. sub(flat[i], 1, 8)
    entries[#entries + 1] = {stamp = unpack_struct('>d', flat[i]), score = tonumber(flat[i + 1]), payload = sub(flat[i], 9), member = flat[i]}
  end
  local contexts = keys[1] and call('HMGET', store.map .. id, unpack(keys))
  for i = 1, #entries do entries[i].context = contexts[i] or '' end
  return entries
end

-- The place in a spilled record of the first entry that does not come before this score and stamp (0 is the first place).
local function spilled_place(store, id, stamp, score)
  local key, bound = store.spill .. id, format('%.17g', score)
  local low = call('ZCOUNT', key, '-inf', '(' .. bound)
  local high = low + call('ZCOUNT', key, bound, bound)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if unpack_struct('>d', call('ZRANGE', key, middle, middle)[1]) < stamp then low = middle + 1 else high = middle end
  end
  return low
end

-- Removes entries, at most a portion, from a spilled record; the caller stores the head. Their digests are computed only where the map
-- may hold one: a map without any is that of a queue that keeps equal payloads, and SHA-1 of a large payload takes milliseconds.
local function remove_spilled(store, id, r, entries)
  local members, contexts, digests, map = {}, {}, {}, store.map .. id
  for i = 1, #entries do
    local stamp = pack('>d', entries[i].stamp)
    members[i], contexts[i] = entries[i].member or stamp .. entries[i].payload, 'c' .. stamp
  end
  if not members[1] then return end
  call('ZREM', store.spill .. id, unpack(members))
  call('HDEL', map, unpack(contexts))
  if call('HLEN', map) > call('HEXISTS', map, 'e') then
    for i = 1, #entries do digests[i] = digest_of(entries[i]) end
    call('HDEL', map, unpack(digests))
  end
  r.count = r.count - #entries
end

-- Every entry of a record, spilled or not.
local function all_entries(store, id, r)
  if r.entries then return r.entries end
  local all = {}
  local step = portion(r)
  repeat
    local part = spilled_entries(store, id, #all, step)
    for i = 1, #part do all[#all + 1] = part[i] end
  until #part < step
  return all
end

-- Is a record of place READY due? A stamp is never beyond tick, but beyond now while a clock that was set back catches up.
local function is_due(r) return r.due <= max(now, tick) end

-- Chooses the index of a record that is about to be written into jobs, by its mark and due time.
-- leaves: the id is to leave the shard, so it gets a place that no claim looks at (depart.lua).
local function place(id, r, parked, leaves)
  if parked then
    r.place = PLACE_PARKED
    call('ZADD', PARKED, now, id)
    return
  end
  if r.retry >= 0 then call('ZADD', RETRY, r.retry, id) end
  if leaves then
    r.place = PLACE_DUE
    call('ZADD', PREFIX .. 'moving', format('%.0f', r.due), id)
    return
  end
  placed = min(placed, r.due)
  if r.mark == MARK_UNPROVEN or r.mark == MARK_SUSPECT then
    r.place = PLACE_IN_DOUBT
    flag_as(FLAG_DOUBTED, true)
    call('ZADD', r.mark == MARK_SUSPECT and SUSPECT or UNPROVEN, format('%.0f', r.due), id)
  elseif r.place == PLACE_READY and is_due(r) then
    call('LPUSH', READY, id)
  else
    r.place = PLACE_DUE
    call('ZADD', DUE, format('%.0f', r.due), id)
  end
end

-- Takes an id out of every index; its entry in ready goes stale. remove: what is called instead of redis.call.
local function unplace(id, r, remove)
  remove = remove or call
  if r.retry >= 0 then remove('ZREM', RETRY, id) end
  if r.place == PLACE_DUE then remove('ZREM', DUE, id)
  elseif r.place == PLACE_PARKED then remove('ZREM', PARKED, id)
  elseif r.place == PLACE_IN_DOUBT then remove('ZREM', r.mark == MARK_SUSPECT and SUSPECT or UNPROVEN, id) end
  if is(FLAG_SOURCE) then remove('ZREM', PREFIX .. 'moving', id) end
end

local function take_spill(from, to, id)
  if call('EXISTS', from.spill .. id) == 1 then call('RENAME', from.spill .. id, to.spill .. id) end
  if call('EXISTS', from.map .. id) == 1 then call('RENAME', from.map .. id, to.map .. id) end
end

-- Record r gets the spilled payloads of record n, which lies in the store `from`; n is gone then, and what r had is lost.
local function take_record(store, id, r, from, n)
  call('HDEL', from.hash, id)
  take_spill(from, store, id)
  r.entries, r.count, r.first, r.last, r.largest = nil, n.count, n.first, n.last, n.largest
end

-- Two records of a queue that keeps one payload of an id: one of the records goes. No payload of n is read.
local function unite_one(store, id, r, from, n, fold)
  local best = r.entries and r.entries[1] or not r.entries and spilled_entries(store, id, fold == 'last' and -1 or 0, 1)[1]
  if not best or not displaces(from, id, n, best, fold) then
    if not r.entries then unspill(store, id, r) end
    take_record(store, id, r, from, n)
  else
    forget(from, id, n)
  end
end

-- Adds all payloads of record n, which lies in the store `from`, to record r; n is gone then. The few go into the many.
local function unite(store, id, r, from, n, fold)
  -- Of a queue that keeps one payload, the morgue may have more of an id.
  local entries = n.entries or keeps_one(fold) and n.count > 1 and spilled_entries(from, id, fold == 'last' and -1 or 0, 1)
  if entries then
    fold_entries(store, id, r, entries, fold)
    forget(from, id, n)
  elseif keeps_one(fold) then
    unite_one(store, id, r, from, n, fold)
  else
    local few = r.entries
    if not few and r.count <= n.count then
      few = all_entries(store, id, r)
      unspill(store, id, r)
    end
    if few then
      take_record(store, id, r, from, n)
    else
      few = all_entries(from, id, n)
      forget(from, id, n)
    end
    fold_entries(store, id, r, few, fold)
  end
end

-- Ids whose run has ended, and whose payloads are too many to be united at once with those that came meanwhile. Such an id
-- keeps a run of its own, of mode m and fence 0, which nobody has: so it is not claimed, and pushes go on to join behind it. Each
-- call of recover.lua or pop.lua moves some payloads. stale_from: before that, what waits behind the run is searched for stale payloads,
-- from this place on, counted from 1; nil: of a record that is not empty, nothing is stale (uniting.lua).
local may_move = PORTION -- payloads that this call may yet move

local function unite_later(id, r, fold, digit, stale_from)
  r.place = PLACE_DUE
  write(first, id, r, fold)
  call('HSET', RUNNING, id, char(48 + (r.entries and 0 or RUN_SPILLED) + digit - digit % RUN_TO_PARK) .. RUN_UNITING .. (stale_from or 0))
  call('ZADD', UNITING, format('%.0f', now), id)
  flag_as(FLAG_UNFINISHED, true)
  placed = min(placed, now)
end

-- How many payloads are to be moved to unite two records? Few go into many.
local function payloads_to_move(r, n, fold)
  if r.entries or n.entries or keeps_one(fold) then return 1 end
  local fewer = r.count < n.count and r or n
  return is_long(fewer) and PORTION + 1 or max(fewer.count, math.floor(PORTION * fewer.count * fewer.largest / PORTION_BYTES))
end

-- What was pushed while the id ran becomes its waiting record. digit: that of the run
local function promote(id, record, digit)
  local r, parked, leaves = read(record), digit % RUN_TO_LEAVE >= RUN_TO_PARK, digit >= RUN_TO_LEAVE
  if r.mark == MARK_EARLIER then r.mark = MARK_NONE end
  call('HDEL', NEXT, id)
  if not r.entries then take_spill(second, first, id) end
  r.place = (r.due <= now or r.place == PLACE_READY and is_due(r)) and PLACE_READY or PLACE_DUE
  if r.place == PLACE_READY and not parked and not leaves then
    if r.retry >= 0 then call('ZADD', RETRY, r.retry, id) end
    call('RPUSH', READY, id)
    placed = 0
  else
    place(id, r, parked, leaves)
  end
  rewrite(first, id, r)
end

-- Puts the record r of a run back, united with what was pushed meanwhile. Its due time and retry_count win,
-- except that an `earlier` push keeps its time. digit: that of the run
local function put_back(id, r, fold, digit)
  local newer = call('HGET', NEXT, id)
  if newer then
    local n = read(newer)
    if n.mark == MARK_EARLIER then r.due = min(r.due, n.due) end
    r.delivered = r.delivered or n.delivered -- what came from the morgue meanwhile
    local moves = payloads_to_move(r, n, fold)
    if moves > may_move then unite_later(id, r, fold, digit) return end
    may_move = may_move - moves
    unite(first, id, r, second, n, fold)
  end
  -- The list of ready ids is in the order of their arrivals, and this one is older than those at its end.
  if r.place == PLACE_READY and is_due(r) then r.place, r.due = PLACE_DUE, min(r.due, now) end
  place(id, r, digit % RUN_TO_LEAVE >= RUN_TO_PARK, digit >= RUN_TO_LEAVE)
  write(first, id, r, fold)
end

-- What others may set while it runs: 1 spilled, 2 deleted, 4 to be parked, 8 to leave.
local function digit_of(run) return byte(run) - 48 end

-- What `running` says of the owner: the fence below which runs are a dead owner's, and whether runs are to be looked at.
local function read_owner_field()
  local text = call('HGET', RUNNING, '') or ''
  local since, mark = string.match(text, '^(%d+)(.)')
  return tonumber(since) or 0, mark == '!'
end

local function write_owner_field(since, pending)
  call('HSET', RUNNING, '', format('%.0f', since) .. (pending and '!' or '.') .. string.rep('.', 65))
end

-- A run that ends without an outcome: its record comes back, unless an operator has deleted it or there is none (r is nil).
local function come_back(id, run, r, fold)
  local digit = digit_of(run)
  call('HDEL', RUNNING, id)
  call('ZREM', OVERRUN, id)
  if r and digit % RUN_TO_PARK < RUN_DELETED then put_back(id, r, fold, digit) return end
  forget(first, id, r or {entries = digit % RUN_DELETED == 0 and {} or nil})
  local newer = call('HGET', NEXT, id)
  if newer then promote(id, newer, digit) end
end

-- The record of a run, as far as it is there (keys may be evicted, or deleted by hand); nil when no payload is left.
local function record_of_run(id)
  local record = call('HGET', JOBS, id)
  local r = record and read(record) or {place = PLACE_DUE, due = now, retry = -1, mark = MARK_NONE, error = ''}
  if not r.entries then r.count = call('ZCARD', first.spill .. id) end
  if not record then widen_bounds(r) end
  return r.count ~= 0 and r or nil
end

-- Adds entries of an id to the morgue.
local function bury(id, entries, error, fold)
  local record = call('HGET', DEAD, id)
  local r = record and read(record) or {place = PLACE_READY, retry = -1, mark = MARK_NONE, entries = {}}
  r.due = now
  set_error(r, error)
  fold = fold == 'list' and 'list' or 'merge'
  fold_entries(morgue, id, r, entries, fold)
  write(morgue, id, r, fold)
  call('ZADD', DIED, format('%.0f', now), id)
end
