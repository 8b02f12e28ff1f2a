-- include: prelude keys record admin
-- DROP: removes one payload of an id that waits, is parked, in doubt or dead. Of a running id, one that waits behind the run:
-- what runs has been delivered. The rest keeps its due time, retry_count and place; with the last payload the id goes.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, dead; 3 id, 4 the payload's stamp and score, packed >dd
-- Returns 1, or 0: there is no such payload, or it has another score now
local id = ARGV[3]
local stamp, score = unpack_struct('>dd', ARGV[4])
probe()
local store = ARGV[2] == 'dead' and morgue or look_at_runs({id})[id] and second or first
local r = look(store, {id})[id]
open_for_writing()

local function is_it(e) return e and e.stamp == stamp and e.score == score end

local function take()
  if not r.entries then
    local e = spilled_entries(store, id, spilled_place(store, id, stamp, score), 1)[1]
    if is_it(e) then remove_spilled(store, id, r, {e}) end
    return is_it(e)
  end
  for i = 1, #r.entries do
    if is_it(r.entries[i]) then return table.remove(r.entries, i) end
  end
end

if not r or not take() then return 0 end
if empty(r) then remove(store, id, r) else rewrite(store, id, r) end
note(id, EVENT_CANCELLED)
advance()
save()
return 1
