-- include: prelude record admin
-- KILL_FAILED: ids that wait after a failure go to the morgue with all their payloads. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first), 4 fold
-- Returns {began, cursor ('' at the end), killed}. Payloads that came since the action began stay, as those of a new id.
local FOLD = ARGV[4] == 'list' and 'list' or 'merge'
probe()
local records, following = failed_slice((read_cursor(ARGV[3])))
local ids = {}
for id in pairs(records) do ids[#ids + 1] = id end
probe_spill(morgue, ids)
local dead = look(morgue, ids)

local began = begin(ARGV[2])
open_for_writing()

-- A record that is old as a whole: its spilled payloads are not read where few are dead already.
local function kill(id, r)
  local d = dead[id] or blank()
  local moves = payloads_to_move(d, r, FOLD)
  d.place, d.due = 0, now
  set_error(d, error_of(first, id, r))
  call('ZADD', DIED, format('%.0f', now), id)
  if moves > may_move then
    move_some(first, id, r, morgue, d, FOLD)
    write(morgue, id, d, FOLD)
    return false
  end
  may_move = may_move - moves
  unplace(id, r)
  unite(morgue, id, d, first, r, FOLD)
  write(morgue, id, d, FOLD)
  return true
end

local killed, cursor = end_failed(records, began, ARGV[3], following, kill, function(id, old, error) bury(id, old, error, FOLD) end)
note_change()
save()
return {format('%.0f', began), cursor, killed}
