-- include: prelude keys record admin find_payload
-- DROP: removes one payload of an id that waits, is parked, in doubt, uniting or dead. Of a running id, one that waits behind the run:
-- what runs has been delivered. The rest keeps its due time, retry_count and place; with the last payload the id goes.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, dead; 3 id, 4 the payload's stamp and score, packed >dd
-- Returns 1, or 0: there is no such payload, or it has another score now
local id = ARGV[3]
local stamp, score = unpack_struct('>dd', ARGV[4])
probe()
local stores = ARGV[2] == 'dead' and {morgue} or places_to_look(id)

local function is_it(e) return e and e.stamp == stamp and e.score == score end

local function entry_of(store, r)
  local entries = r.entries or spilled_entries(store, id, spilled_place(store, id, stamp, score), 1)
  for i = 1, #entries do
    if is_it(entries[i]) then return entries[i] end
  end
end

for i = 1, #stores do
  local r = look(stores[i], {id})[id]
  local e = r and entry_of(stores[i], r)
  if e then
    open_for_writing()
    take_entry(stores[i], id, r, e)
    note(id, EVENT_CANCELLED)
    advance()
    save()
    return 1
  end
end
return 0
