-- include: prelude keys flags record moving scheduled parts
-- SLICE_IN: keeps payloads of an id that is to arrive.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 source: number of the shard that the id leaves; 3 sequence of the batch there, 4 id, 5 letter (parts.lua),
--       6 place of the first payload: '0' forgets what came before; 7 text of slice_out.lua, 8 fold
-- Returns 'OK', or 'AGAIN': the batch has arrived. Sent twice, it changes nothing.
if not state then return error_reply('GENERATION 1') end -- its turn makes it
local sequence, id, letter, slice = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[7]
local store = arriving[letter]
if not store or not sequence or #ARGV ~= 8 then return error_reply('ERR wrong arguments') end
if (tonumber(call('HGET', RESHARD, 'in/' .. ARGV[2])) or 0) >= sequence then return 'AGAIN' end
probe_spill(store, {id})
local at, members, fields = 1, {}, {}

local function text_at()
  local text
  text, at = unpack_struct('<I4c0', slice, at)
  return text
end

local function put(score, member, field, value)
  if score ~= score then error('wrong number') end
  members[#members + 1], members[#members + 2] = format('%.17g', score), member
  if value then fields[#fields + 1], fields[#fields + 2] = field, value end
end

if letter == 's' then
  while at <= #slice do
    local stamp, time = sub(slice, at, at + 7), unpack_struct('<d', slice, at + 8)
    at = at + 16
    put(time, stamp, stamp, text_at())
  end
else
  local is_merged = ARGV[8] == 'merge' or letter == 'd' and ARGV[8] ~= 'list'
  local whole_error = ARGV[6] == '0' and text_at() or ''
  if whole_error ~= '' then fields[1], fields[2] = 'e', whole_error end
  while at <= #slice do
    local stamp, score, context, payload
    stamp, score, context, payload, at = unpack_struct('<ddI4c0I4c0', slice, at)
    local packed = pack('>d', stamp)
    put(score, packed .. payload, 'c' .. packed, context ~= '' and context)
    if is_merged then fields[#fields + 1], fields[#fields + 2] = 'i' .. redis.sha1hex(payload), packed end
  end
end
if state then call('SET', STATE, state) end -- to be refused at maxmemory, as a push is
if ARGV[6] == '0' then call('UNLINK', store.spill .. id, store.map .. id) end
if members[1] then call('ZADD', store.spill .. id, unpack(members)) end
if fields[1] then call('HSET', store.map .. id, unpack(fields)) end
return 'OK'
