-- library: join - unites jobs that arrive with what their id has. It needs record.lua.
--
-- A job is the record that it makes where nothing waits, with one entry and the word of on_waiting. Who calls has refused what
-- `reject` and `unique` refuse.

-- The due time that this job gives to a record that is due at `due`. A ready job asks for now: its stamp is later while the clock of Redis
-- is behind the tick of the shard.
local function moved(job, due)
  local word, asked = job.word, job.place == PLACE_READY and min(job.due, now) or job.due
  if word == 'earlier' then return min(due, asked) end
  if word == 'later' then return max(due, asked) end
  if word == 'replace' then return asked end
  return due
end

-- A record without payloads, due when the job is.
local function record_for(job)
  return {place = job.place, due = job.due, retry = job.retry, mark = MARK_NONE, error = '', entries = {}}
end

-- Of a queue that keeps one payload of an id: the arrival of the one that is kept.
local function winner(r) return r.entries and r.entries[1] and r.entries[1].stamp end

-- Unites jobs, one at least, with what waits behind the run of an id: `record`, or false. Returns the winner.
local function join_behind(id, record, jobs, fold)
  local n, entries = record and read(record), {}
  for j = 1, #jobs do
    local job = jobs[j]
    local due = n and moved(job, n.due)
    if not n then n = record_for(job) elseif due ~= n.due then n.due, n.place = due, job.place end
    if job.word == 'earlier' then n.mark, n.due = MARK_EARLIER, moved(job, n.due) end
    entries[j] = job.entries[1]
  end
  fold_entries(second, id, n, entries, fold)
  local kept = winner(n)
  write(second, id, n, fold)
  return kept
end

-- Unites jobs, one at least, with an id that does not run: `record`, or false; w: what read gives of it, if the caller has read it.
-- Returns the winner, and the microsecond at which the id became due: 0 is now, FOREVER means that it was due then before.
local function join_waiting(id, record, jobs, fold, w)
  local entries, is_moved = {}, false
  w = w or record and read(record)
  for j = 1, #jobs do
    local job = jobs[j]
    if not w then w = record_for(job) end
    local due = moved(job, w.due)
    if due ~= w.due and w.place ~= PLACE_PARKED and (w.place ~= PLACE_READY or due > now) then
      if record and not is_moved then unplace(id, w) end
      w.due, w.place, is_moved = due, PLACE_DUE, true
    end
    entries[j] = job.entries[1]
  end
  fold_entries(first, id, w, entries, fold)
  local kept, soon = winner(w), FOREVER
  if not record and w.place == PLACE_READY then
    if w.retry >= 0 then call('ZADD', RETRY, w.retry, id) end
    call('RPUSH', READY, id)
    soon = 0
  elseif not record or is_moved then
    place(id, w)
    soon = w.due
  end
  if not record and is(FLAG_SOURCE) then
    -- include apart: moving
    note_return(id)
  end
  write(first, id, w, fold)
  placed = min(placed, soon)
  return kept, soon
end
