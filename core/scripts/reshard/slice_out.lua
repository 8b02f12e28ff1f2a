-- include: prelude keys flags record moving scheduled parts
-- SLICE_OUT: reads payloads of an id of the open batch, a slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 sequence of the batch, 3 id, 4 letter (parts.lua), 5 place of the first one ('0' at first)
-- Returns {place of the next slice ('' at the end), a text for slice_in.lua}; {} if the id is not in this batch
local id, letter, place_of_first = ARGV[3], ARGV[4], tonumber(ARGV[5])
local part = call('HGET', LEAVING, '') == ARGV[2] and call('HGET', LEAVING, id)
if not part or id == '' then return {} end
local p, letters = open_part(part)
if not has_letter(letters, letter) or not place_of_first then return error_reply('ERR wrong arguments') end
local out = {}

local function add(text) out[#out + 1] = pack('<I4', #text) .. text end

local function scheduled_slice()
  local flat, bytes = call('ZRANGE', LEFT_SCHED .. id, place_of_first, place_of_first + PORTION - 1, 'WITHSCORES'), 0
  for i = 1, #flat, 2 do
    local text = call('HGET', LEFT_SCHEDMAP .. id, flat[i]) or ''
    if i > 1 and bytes + #text > PORTION_BYTES then return (i - 1) / 2, true end
    bytes = bytes + #text
    out[#out + 1] = flat[i] .. pack('<d', tonumber(flat[i + 1]))
    add(text)
  end
  return #flat / 2, #flat / 2 == PORTION
end

-- The whole error stands before the first payload.
local function spilled_slice(store, record)
  local r = read(record)
  if place_of_first == 0 then add(r.cut and call('HGET', store.map .. id, 'e') or '') end
  local step = portion(r)
  local entries = spilled_entries(store, id, place_of_first, step)
  for i = 1, #entries do add_entry(out, entries[i]) end
  return #entries, #entries == step
end

local count, more
if letter == 's' then count, more = scheduled_slice() else count, more = spilled_slice(letter == 'w' and first or morgue, letter == 'w' and p.j or p.d) end
return {more and format('%.0f', place_of_first + count) or '', table.concat(out)}
