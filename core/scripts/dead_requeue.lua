-- include: prelude record admin
-- DEAD_REQUEUE: dead ids leave the morgue and become due now, as new ones, united with what waits or runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('' for chosen ids; all: '0' at first), 3 cursor (unused), 4 fold, 5.. ids, at most 1,000
-- Returns {began, '' or 'more', requeued}. All means those that had died when the action began, a slice a call.
local FOLD = ARGV[4]
local ids, began, more = dead_slice(5, ARGV[2])
probe()
local dead, waiting, behind, runs = look(morgue, ids), look(first, ids), look(second, ids), look_at_runs(ids)
for id in pairs(dead) do probe_spill(runs[id] and second or first, {id}) end
open_for_writing()
spread()

local function requeue_behind(id, d)
  local n = behind[id] or blank()
  n.due, n.retry = now, -1
  set_error(n, '')
  unite(second, id, n, morgue, d, FOLD)
  write(second, id, n, FOLD)
end

local function requeue(id, d)
  local r = waiting[id]
  if not r or r.place ~= PARKED_PLACE then
    if r then move(id, r, now) else r = blank() end
    r.retry = -1
    set_error(r, '')
    place(id, r)
  end
  unite(first, id, r, morgue, d, FOLD)
  write(first, id, r, FOLD)
end

local requeued = 0
for i = 1, #ids do
  local id = ids[i]
  local d = dead[id]
  if d then
    if runs[id] then requeue_behind(id, d) else requeue(id, d) end
    requeued = requeued + 1
  end
  call('ZREM', DIED, id)
end
if requeued > 0 then note_due() end
save()
return {began, more, requeued}
