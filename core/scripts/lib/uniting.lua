-- library: uniting - moves payloads of ids that are uniting, a slice a call, for the owner or a popper.
-- It needs change, note, record and scores.

local came_back = false -- an id became due

-- An id whose run is done, and behind which more waited than one call looks at: removes what is stale there. The number in its run is the
-- place where to go on, counted from 1; 0: at the first place. At the end a record r that is not empty unites with the rest.
local function end_stale(id, run, r, n, fold)
  local known = scores_of({id})[id]
  local following = known and remove_stale(id, n, known, max(tonumber(sub(run, 3)) - 1, 0))
  if following or not empty(r) then
    may_move = 0
    call('HSET', RUNNING, id, sub(run, 1, 2) .. format('%.0f', following and following + 1 or 0))
    return
  end
  call('ZREM', UNITING, id)
  come_back(id, run, nil, fold)
  came_back = true
end

-- Moves payloads of an id that is uniting; with the last ones it comes back.
local function unite_some(id, fold)
  local run, record, newer = call('HGET', RUNNING, id), call('HGET', JOBS, id), call('HGET', NEXT, id)
  local r, n = record and read(record), newer and read(newer)
  if not run or sub(run, 2, 2) ~= RUN_UNITING then
    call('ZREM', UNITING, id)
  elseif r and n and (empty(r) or sub(run, 3) ~= '0') and digit_of(run) % RUN_TO_PARK < RUN_DELETED then
    end_stale(id, run, r, n, fold)
  elseif not r or not n or digit_of(run) % RUN_TO_PARK >= RUN_DELETED or payloads_to_move(r, n, fold) <= may_move then
    call('ZREM', UNITING, id)
    come_back(id, run, record_of_run(id), fold)
    came_back = true
  else
    local part = spilled_entries(second, id, 0, max(1, min(may_move, portion(n))))
    if n.mark == MARK_EARLIER then r.due = min(r.due, n.due) end
    remove_spilled(second, id, n, part)
    fold_entries(first, id, r, part, fold)
    if empty(n) then forget(second, id, n) else rewrite(second, id, n) end
    rewrite(first, id, r)
    may_move = 0
  end
end

-- A slice of the work on all ids that are uniting. Is there more?
local function unite_slice(fold)
  local ids = call('ZRANGE', UNITING, 0, 19)
  for i = 1, #ids do
    probe_spill(first, {ids[i]})
    probe_spill(second, {ids[i]})
  end
  open_for_writing()
  for i = 1, #ids do
    if may_move > 0 then unite_some(ids[i], fold) end
  end
  if call('ZCARD', UNITING) > 0 then return true end
  -- The flag also says that runs of a dead owner are to be looked at: a popper must not clear it then, or no server would do that.
  local _, pending = read_owner_field()
  if not pending then flag_as(FLAG_UNFINISHED, false) end
  return false
end
