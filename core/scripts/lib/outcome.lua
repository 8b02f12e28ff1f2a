-- library: outcome - ends a run that failed, was rejected or has payloads left.
-- It needs note, record, notify, FOLD, TELLER (the node whose retries_exhausted is told, '' for any) and has_next (false: no id has
-- anything behind its run). It sets promoted and exhausted.
-- include: lowest
local promoted, exhausted = 0, {}

-- The id has nothing left of this run; what was pushed meanwhile goes on.
local function finish(id, digit)
  call('HDEL', JOBS, id)
  if digit % RUN_DELETED == RUN_SPILLED then call('UNLINK', first.spill .. id, first.map .. id) end
  local newer = has_next and call('HGET', NEXT, id)
  if newer then
    promote(id, newer, digit)
    promoted = 1
  end
end

-- Removes entries of a running record, by stamp, and returns them. They are among `entries`: all of the record, or, because a spilled
-- record is not read whole, some of it.
local function pick(id, r, entries, stamps)
  local picked, kept = {}, {}
  for i = 1, #entries do
    local list = stamps[entries[i].stamp] and picked or kept
    list[#list + 1] = entries[i]
  end
  if r.entries then r.entries = kept else remove_spilled(first, id, r, picked) end
  return picked
end

-- Removes the entry with the lowest score.
local function take_oldest(id, r)
  local entries = r.entries or spilled_entries(first, id, 0, 1)
  return pick(id, r, entries, {[entries[lowest(entries)].stamp] = true})
end

-- What remains of a run goes back, or, if nothing remains, what was pushed meanwhile goes on.
local function go_on(id, r, digit)
  if empty(r) then finish(id, digit) return end
  r.place = (r.place == PLACE_READY and is_due(r)) and PLACE_READY or PLACE_DUE
  put_back(id, r, FOLD, digit)
  promoted = 1
end

-- Payloads of a run that cannot be read go to the morgue: those of `entries` whose stamps are packed >d. Was there one?
local function reject(id, r, entries, text, packed, hooked)
  local stamps = {}
  for i = 1, #packed, 8 do stamps[unpack_struct('>d', packed, i)] = true end
  local picked = pick(id, r, entries, stamps)
  if not picked[1] then return false end
  if hooked then notify_entries(TELLER, id, {retry = r.retry, error = text}, picked) end
  bury(id, picked, text, FOLD)
  note(id, EVENT_BURIED, #picked, text)
  return true
end

-- A run fails: time until the next one, limit is max_retry_count, action on_exhausted.
local function fail(id, r, digit, time, text, limit, action, hooked)
  failed = failed + 1
  set_error(r, text)
  r.retry, r.due, r.place, r.delivered = r.retry + 1, now + time, PLACE_DUE, true
  note(id, EVENT_FAILED, r.retry < limit and r.due, text)
  if r.retry < limit then put_back(id, r, FOLD, digit) promoted = 1 return end
  exhausted[#exhausted + 1] = id
  r.pops = nil
  if hooked and action ~= 'bury' then notify_record(TELLER, first, id, r) end
  note(id, action == 'park' and EVENT_PARKED or action == 'drop' and EVENT_DROPPED or EVENT_BURIED, 1, text)
  if action == 'park' then put_back(id, r, FOLD, RUN_TO_PARK) return end
  if action == 'drop' then finish(id, digit) return end
  local dead = take_oldest(id, r)
  if hooked then notify_entries(TELLER, id, r, dead) end
  bury(id, dead, text, FOLD)
  r.retry, r.due, r.mark = 0, now, MARK_NONE -- the payload that may have ended processes is gone
  go_on(id, r, digit)
end
