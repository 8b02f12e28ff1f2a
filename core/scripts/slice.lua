-- include: prelude record
-- SLICE: reads payloads of a running id that are too many for one answer; its set is frozen while it runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 run, 4 first entry to read (from 0)
-- Returns the entries as in a full record, some 200 or 1 MiB, so that others do not wait long; '' at the end. Error replies: STALE owner
local id, from, bytes, out = ARGV[2], tonumber(ARGV[4]), 0, {}
local run = call('HGET', RUNNING, id)
if not run or sub(run, 2) ~= sub(ARGV[3], 2) then return error_reply('STALE ' .. owner) end
while #out < 200 and bytes < 1048576 do
  local entries = spilled_entries(first, id, from, 50)
  if not entries[1] then break end
  for i = 1, #entries do
    local e = entries[i]
    out[#out + 1] = pack('<ddI4c0I4c0', e.stamp, e.score, #e.context, e.context, #e.payload, e.payload)
    bytes = bytes + #e.payload + #e.context
  end
  from = from + #entries
end
return table.concat(out)
