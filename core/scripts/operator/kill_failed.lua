-- include: prelude keys record admin notify
-- KILL_FAILED: ids that wait after a failure go to the morgue with all their payloads: all of them, a slice a call, or chosen ones.
-- KEYS: the shard's
-- ARGV: 1 generation
--       2 began ('0' at first)
--       3 cursor ('' at first)
--       4 fold
--       5 '1' where retries_exhausted is to be told: whoever owns the shard tells
--       6.. chosen ids, at most 1,000; none: all. Chosen ids are given again, with began '0' and cursor '', until the cursor is ''
-- Returns {began, cursor ('' at the end), killed}. Payloads that came since the action began stay, as those of a new id. Of an id that goes
--   in several calls each tells retries_exhausted of the payloads that it has buried.
local FOLD, hooked = ARGV[4] == 'list' and 'list' or 'merge', ARGV[5] == '1'
probe()
probe_notices()
local records, following = failed_slice((read_cursor(ARGV[3])), ARGV[6] and chosen(6))
local ids = {}
for id in pairs(records) do ids[#ids + 1] = id end
probe_spill(morgue, ids)
local dead = look(morgue, ids)

local began = begin(ARGV[2])
open_for_writing()

-- What a notice of a record takes of what a call may move.
local function noticing(r)
  if r.entries then return 1 end
  return PORTION * min(r.count * r.largest, max(NOTICE_BYTES, r.largest)) / PORTION_BYTES
end

-- A record that is old as a whole: its spilled payloads are not read where few are dead already.
local function kill(id, r)
  local d = dead[id] or blank()
  local moves = payloads_to_move(d, r, FOLD)
  d.place, d.due = PLACE_READY, now
  set_error(d, error_of(first, id, r))
  call('ZADD', DIED, format('%.0f', now), id)
  if moves > may_move then
    local part = move_some(first, id, r, morgue, d, FOLD)
    if hooked then notify_entries('', id, {retry = r.retry, error = d.error}, part) end
    if empty(r) then
      note(id, EVENT_BURIED, #part, d.error)
      unplace(id, r)
    end
    write(morgue, id, d, FOLD)
    return empty(r)
  end
  may_move = may_move - moves
  note(id, EVENT_BURIED, r.entries and #r.entries or r.count, d.error)
  if hooked then
    may_move = may_move - noticing(r)
    notify_record('', first, id, r)
  end
  unplace(id, r)
  unite(morgue, id, d, first, r, FOLD)
  write(morgue, id, d, FOLD)
  return true
end

-- The payloads of a record that had come when the action began; later ones stay.
local function kill_old(id, old, error)
  if hooked then notify_entries('', id, {retry = 0, error = error}, old) end
  bury(id, old, error, FOLD)
  note(id, EVENT_BURIED, #old, error)
end

local killed, cursor = end_failed(records, began, ARGV[3], following, kill, kill_old)
note_change()
if hooked and is(FLAG_NOTICED) then tell_owner() end
save()
return {format('%.0f', began), cursor, killed}
