-- include: prelude record
-- SLICE: reads payloads of a running id that are too many for one answer; its set is frozen while it runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 run, 4 first entry to read (from 0)
-- Returns {the entries as in a full record, the whole error where the record has the beginning of it}: some 200 entries or 1 MiB,
--   so that others do not wait long, '' at the end; the error only with the first. Error replies: STALE owner
local id, from, bytes, out = ARGV[2], tonumber(ARGV[4]), 0, {}
local run = call('HGET', RUNNING, id)
if not run or sub(run, 2) ~= sub(ARGV[3], 2) then return error_reply('STALE ' .. owner) end
local record = call('HGET', JOBS, id)
local r = record and read(record)
if not r or r.entries then return {'', ''} end
local step = min(50, portion(r))
while #out < 200 and bytes < PORTION_BYTES do
  local entries = spilled_entries(first, id, from, step)
  if not entries[1] then break end
  for i = 1, #entries do
    local e = entries[i]
    out[#out + 1] = pack('<ddI4c0I4c0', e.stamp, e.score, #e.context, e.context, #e.payload, e.payload)
    bytes = bytes + #e.payload + #e.context
  end
  from = from + #entries
end
return {table.concat(out), from == #out and error_of(first, id, r) or ''}
