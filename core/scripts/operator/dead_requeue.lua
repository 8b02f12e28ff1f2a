-- include: prelude keys record admin
-- DEAD_REQUEUE: dead ids leave the morgue and become due now, as new ones, united with what waits or runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('' for chosen ids; all: '0' at first), 3 cursor (unused), 4 fold, 5.. ids, at most 1,000
-- Returns {began, '' or 'more', requeued}. All means those that had died when the action began, a slice a call. Payloads that are many
--   on both sides are moved some a call; until the last, the id is dead as well. With 'more' the same ids are to be given again.
local FOLD = ARGV[4]
local ids, began, more = dead_slice(5, ARGV[2])
probe()
local dead, waiting, behind, runs = look(morgue, ids), look(first, ids), look(second, ids), look_at_runs(ids)
for id in pairs(dead) do probe_spill(runs[id] and second or first, {id}) end
open_for_writing()
spread()

-- false: more of its payloads are to be moved.
local function move_to(store, id, r, d)
  local moves = payloads_to_move(r, d, FOLD)
  if moves > may_move then
    move_some(morgue, id, d, store, r, FOLD)
  else
    may_move = may_move - moves
    unite(store, id, r, morgue, d, FOLD)
  end
  write(store, id, r, FOLD)
  return call('HEXISTS', DEAD, id) == 0
end

local function requeue_behind(id, d)
  local n = behind[id] or blank()
  n.due, n.retry, n.delivered = now, -1, true
  set_error(n, '')
  return move_to(second, id, n, d)
end

local function requeue(id, d)
  local r = waiting[id]
  if not r or r.place ~= PLACE_PARKED then
    if r then
      move(id, r, now)
    else
      r = blank()
      if is(FLAG_SOURCE) then
        -- include: moving
        note_return(id)
      end
    end
    r.retry = -1
    set_error(r, '')
    place(id, r)
  end
  r.delivered = true
  return move_to(first, id, r, d)
end

local requeued = 0
for i = 1, #ids do
  local id = ids[i]
  local d = dead[id]
  if d and may_move <= 0 then
    more = 'more'
    break
  end
  local gone = not d
  if d and runs[id] then gone = requeue_behind(id, d) elseif d then gone = requeue(id, d) end
  if gone then
    if d then
      requeued = requeued + 1
      note(id, EVENT_REQUEUED)
    end
    call('ZREM', DIED, id)
  else
    more = 'more'
  end
end
note_due()
save()
return {began, more, requeued}
