-- include: prelude keys record runs lowest places
-- FIND: which payload of an id has these bytes: of one that waits, is parked or uniting, of what waits behind a run, or of a dead one.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, dead; 3 id, 4 payload, 5 where to go on ('' at first): number of the place, stamp and score
-- Returns {its stamp and score, packed >dd, or '', where to go on ('' at the end)}. Of equal payloads the first by score, then
--   by arrival; of an id that is uniting, one that came meanwhile before the others. A call looks at one record, and at some 500
--   spilled payloads or 1 MiB, so that others do not wait long.
local id, payload = ARGV[3], ARGV[4]
local stores = ARGV[2] == 'dead' and {morgue} or places_to_look(id)
local number, from = tonumber(sub(ARGV[5], 1, 1)) or 1, sub(ARGV[5], 2)
local store, following = stores[number] or first, stores[number + 1] and tostring(number + 1) or ''
local record = call('HGET', store.hash, id)
if not record then return {'', following} end
local r = read(record)

if r.entries then
  local equal = {}
  for i = 1, #r.entries do
    if r.entries[i].payload == payload then equal[#equal + 1] = r.entries[i] end
  end
  local found = equal[lowest(equal)]
  return {found and pack('>dd', found.stamp, found.score) or '', found and '' or following}
end

local known = call('HGET', store.map .. id, 'i' .. redis.sha1hex(payload))
local score = known and call('ZSCORE', store.spill .. id, known .. payload)
if score then return {known .. pack('>d', tonumber(score)), ''} end

local at, bytes, flat = 0, 0, {}
local function key(i) return sub(flat[i], 1, 8) .. pack('>d', tonumber(flat[i + 1])) end
if from ~= '' then at = spilled_place(store, id, unpack_struct('>dd', from)) end
for _ = 1, 10 do
  flat = call('ZRANGE', store.spill .. id, at, at + 49, 'WITHSCORES')
  for i = 1, #flat, 2 do
    if #flat[i] == #payload + 8 and sub(flat[i], 9) == payload then return {key(i), ''} end
    bytes = bytes + #flat[i]
  end
  if #flat < 100 then return {'', following} end
  if bytes >= 1048576 then break end
  at = at + 50
end
return {'', number .. key(99)}
