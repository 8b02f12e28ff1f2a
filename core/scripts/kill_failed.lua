-- include: prelude record admin
-- KILL_FAILED: ids that wait after a failure go to the morgue with all their payloads. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first), 4 fold
-- Returns {began, cursor ('' at the end), killed}. Payloads that came since the action began stay, as those of a new id.
local FOLD = ARGV[4] == 'list' and 'list' or 'merge'
probe()
local records, cursor = failed_slice(ARGV[3] == '' and '0' or ARGV[3])
local ids = {}
for id in pairs(records) do ids[#ids + 1] = id end
probe_spill(morgue, ids)
local dead = look(morgue, ids)

local began = begin(ARGV[2])
open_for_writing()

-- A record that is old as a whole: its spilled payloads are not read.
local function kill(id, r)
  local d = dead[id] or blank()
  d.place, d.due = 0, now
  set_error(d, error_of(first, id, r))
  unplace(id, r)
  unite(morgue, id, d, first, r, FOLD)
  write(morgue, id, d, FOLD)
  call('ZADD', DIED, format('%.0f', now), id)
end

local killed = 0
for id, r in pairs(records) do
  local error = error_of(first, id, r)
  local old = take_old(id, r, began)
  if not old then kill(id, r) elseif old[1] then bury(id, old, error, FOLD) end
  if not old or old[1] then killed = killed + 1 end
end
if killed > 0 then note_change() end
save()
return {format('%.0f', began), cursor, killed}
