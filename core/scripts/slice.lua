-- include: prelude record
-- SLICE: reads payloads of a running id that are too many for one answer; its set is frozen while it runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 run, 4 first entry to read (from 0)
-- Returns the entries as in a full record, at most 1,000 or 1 MiB; '' at the end. Error replies: STALE owner
local id, from, bytes, out = ARGV[2], tonumber(ARGV[4]), 0, {}
local run = call('HGET', RUNNING, id)
if not run or sub(run, 2) ~= sub(ARGV[3], 2) then return error_reply('STALE ' .. owner) end
local contexts = call('EXISTS', first.map .. id) == 1
while #out < 1000 and bytes < 1048576 do
  local flat = call('ZRANGE', first.spill .. id, from, from + 49, 'WITHSCORES')
  if not flat[1] then break end
  for i = 1, #flat, 2 do
    local stamp, payload = sub(flat[i], 1, 8), sub(flat[i], 9)
    local context = contexts and call('HGET', first.map .. id, 'c' .. stamp) or ''
    out[#out + 1] = pack('<ddI4c0I4c0', unpack_struct('>d', stamp), tonumber(flat[i + 1]), #context, context, #payload, payload)
    bytes = bytes + #payload + #context
  end
  from = from + #flat / 2
end
return table.concat(out)
