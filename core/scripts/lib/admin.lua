-- library: admin - what operators' actions share: all is read and checked before the first write
-- include: change owner spread runs

-- Readers know by the state that a shard is as they saw it: what operators change shows there, too. Actions that make nothing due and
-- do not go on in further calls raise the tick instead. To one that goes on the tick tells that nothing was pushed since it began
-- (came_since).
local function note_change() flags = (flags + FLAG_CHANGED) % 256 end

-- What operators made due now, the owner is to see as well.
local function note_due()
  note_change()
  wake_owner(now)
end

-- The ids in ARGV from `from`, each once.
local function chosen(from)
  local ids, seen = {}, {}
  for i = from, #ARGV do
    if not seen[ARGV[i]] then ids[#ids + 1], seen[ARGV[i]] = ARGV[i], true end
  end
  return ids
end

-- A table from id to value; the values are in the order of the ids, and false means that the id has no value.
local function by_id(ids, values)
  local found = {}
  for i = 1, #ids do found[ids[i]] = values[i] or nil end
  return found
end

-- The runs of ids, by id.
local function look_at_runs(ids) return by_id(ids, ids[1] and runs_of(ids) or ids) end

-- The records of ids in a store, by id.
local function look(store, ids)
  local found = by_id(ids, ids[1] and call('HMGET', store.hash, unpack(ids)) or ids)
  for id, record in pairs(found) do
    found[id] = read(record)
    if not found[id].entries then probe_spill(store, {id}) end
  end
  return found
end

-- A record for an id that has nothing in the store.
local function blank() return {place = PLACE_DUE, due = now, retry = -1, mark = MARK_NONE, error = '', entries = {}} end

-- The run with another flags digit: 1 spilled, 2 suppressed, 4 to be parked, 8 to leave.
local function flagged(id, run, digit)
  call('HSET', RUNNING, id, char(48 + digit) .. sub(run, 2))
end

-- A waiting id becomes due at `time`; retry_count may have changed since `old` was written.
local function move(id, r, time)
  unplace(id, r)
  r.due, r.place = time, PLACE_DUE
end

-- A parked record becomes due now, as that of a new id.
local function unpark(id, r)
  move(id, r, now)
  r.retry = -1
  set_error(r, '')
  place(id, r)
  rewrite(first, id, r)
  note(id, EVENT_UNPARKED)
end

-- Lets a run that was to be parked go on. Was it?
local function unpark_run(id, run)
  if digit_of(run) % RUN_TO_LEAVE < RUN_TO_PARK then return false end
  note(id, EVENT_UNPARKED)
  flagged(id, run, digit_of(run) - RUN_TO_PARK)
  return true
end

local REMOVED = 30 -- ids that a call removes: to free one payload of 1 MiB takes some 100 microseconds

-- A record goes, out of its store and of every index.
local function remove(store, id, r)
  if store == first then unplace(id, r) end
  if store == morgue then call('ZREM', DIED, id) end
  forget(store, id, r)
end

local function is_due_later(r) return r.due > now and r.place ~= PLACE_PARKED end

-- A record of a store becomes due at `time`; retry_count stays.
local function perform_at(time, store, id, r)
  if store == second then
    r.due = time
  else
    move(id, r, time)
    place(id, r)
  end
  rewrite(store, id, r)
end

-- The end of an action that makes ids due: those of these records that are due later and, if `accepts` is given, that it accepts
-- become due when the action began, and not later than now: `began` is a tick, which is ahead of a clock that was set back. Returns the
-- answer of the slice.
local function perform_slice(began, store, records, following, accepts)
  local changed = 0
  open_for_writing()
  for id, r in pairs(records) do
    if is_due_later(r) and (not accepts or accepts(r)) then
      perform_at(min(began, now), store, id, r)
      note(id, EVENT_DUE_NOW)
      changed = changed + 1
    end
  end
  if changed > 0 then note_due() end
  save()
  return {format('%.0f', began), following, changed}
end

-- Has a payload come since the microsecond `began`? Then `tick` has passed it.
local seen_tick = tick
local function came_since(began) return seen_tick > began end

-- The arrival of the first payload of a record; of a spilled one nothing later.
local function arrival(r)
  local first_stamp = FOREVER
  if r.entries then
    for i = 1, #r.entries do first_stamp = min(first_stamp, r.entries[i].stamp) end
    return first_stamp
  end
  return r.first
end

-- The microsecond that an action on a whole queue is bound to: what comes later is not touched. '0' begins it.
local function begin(text)
  if text == '0' then return advance() end
  local time = tonumber(text)
  time = time == time and time or nil
  format('%.0f', time) -- raises where the text is no number: before the first write
  return time
end

-- Where an action on failed ids goes on: a cursor of ZSCAN, and, within an id, how many of its payloads it has passed over.
local function read_cursor(text)
  local cursor, passed, id = string.match(text, '^(%d+):(%d+):(.+)$')
  return cursor or (text == '' and '0' or text), tonumber(passed) or 0, id
end

-- A slice of the ids that wait after a failure, with their records by id, and the cursor behind it ('' at the end). some: only these ids.
local function failed_slice(cursor, some)
  local page, ids = some and {'0'} or call('ZSCAN', RETRY, cursor, 'COUNT', 100), some or {}
  for i = 1, some and 0 or #page[2], 2 do ids[#ids + 1] = page[2][i] end
  local records, runs = look(first, ids), look_at_runs(ids)
  for i = 1, #ids do
    local id = ids[i]
    local r = records[id]
    if r and (runs[id] or r.place == PLACE_PARKED or r.retry < 0) then records[id] = nil end
  end
  return records, page[1] == '0' and '' or page[1]
end

-- Takes the payloads that had come when the action began out of a waiting record, some of a spilled one a call: `passed` are
-- looked at already. Returns them, and the number that are passed over now, or nil when all have been looked at.
local function take_old(id, r, began, passed)
  local old, new, bytes = {}, {}, 0
  local entries = r.entries or spilled_entries(first, id, passed, portion(r))
  for i = 1, #entries do
    local part = entries[i].stamp <= began and old or new
    part[#part + 1] = entries[i]
    bytes = bytes + #entries[i].payload
  end
  if r.entries then
    r.entries = new
    return old, nil
  end
  may_move = may_move - max(#entries, PORTION * bytes / PORTION_BYTES)
  local at_end = #entries < portion(r)
  remove_spilled(first, id, r, old)
  return old, not at_end and not empty(r) and passed + #new or nil
end

-- What is left of an id when its old payloads are gone: an id as a new one, or nothing.
local function leave_new(id, r)
  if empty(r) then remove(first, id, r) return end
  call('ZREM', RETRY, id)
  r.retry = -1
  set_error(r, '')
  rewrite(first, id, r)
end

-- Ends ids that wait after a failure, a slice a call. whole(id, r) ends one of which nothing came since the action began; false: the
-- rest of it follows. some(id, entries, error) ends payloads of another. Returns how many ids have ended, and the cursor.
local function end_failed(records, began, text, following, whole, some)
  local cursor, passed, within = read_cursor(text)
  local ended = 0
  for id, r in pairs(records) do
    -- An id takes 1 at least; what notices take is no whole number.
    if may_move < 1 then return ended, cursor end
    local is_new = not r.entries and r.first > began
    local is_old = not came_since(began) or not r.entries and r.last <= began
    if (not within or id == within) and not is_new and is_old then
      if not whole(id, r) then return ended, cursor end
      ended = ended + 1
    elseif (not within or id == within) and not is_new then
      local error, had = error_of(first, id, r), r.entries and #r.entries or r.count
      local old, next_place = take_old(id, r, began, id == within and passed or 0)
      if old[1] then some(id, old, error) end
      if next_place then
        rewrite(first, id, r)
        return ended, format('%s:%.0f:%s', cursor, next_place, id)
      end
      if id == within or (r.entries and #r.entries or r.count) < had then
        leave_new(id, r)
        ended = ended + 1
      end
    end
  end
  if within then return ended, cursor end
  return ended, following
end

-- Moves some payloads of a spilled record, the lowest scores first, into another, and returns them. The caller stores the record that
-- gets them; the other one goes with its last payload, as a call may move all of a few large ones.
local function move_some(from, id, n, store, r, fold)
  local part = spilled_entries(from, id, 0, max(1, min(may_move, portion(n))))
  remove_spilled(from, id, n, part)
  fold_entries(store, id, r, part, fold)
  if empty(n) then forget(from, id, n) else rewrite(from, id, n) end
  may_move = 0
  return part
end

-- Dead ids: those in ARGV from `from`, or, without any, a slice of all that had died by `began`.
-- Returns them, began, and 'more' or ''.
local function dead_slice(from, text)
  if text == '' then return chosen(from), '', '' end
  local began = text == '0' and format('%.0f', now) or text
  local ids = call('ZRANGEBYSCORE', DIED, '-inf', began, 'LIMIT', 0, REMOVED)
  return ids, began, #ids == REMOVED and 'more' or ''
end
