-- include: prelude keys record
-- SLICE: reads payloads of a running id that are too many for one answer; its set is frozen while it runs.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id, 3 run, 4 first entry to read (from 0)
-- Returns {the entries as in a full record, the whole error where the record has the beginning of it}: some 200 entries or 384 KiB,
--   so that others do not wait long, '' at the end; the error only with the first. Error replies: STALE owner
local id, from, bytes, count, out = ARGV[2], tonumber(ARGV[4]), 0, 0, {}
local run = call('HGET', RUNNING, id)
if not run or sub(run, 2) ~= sub(ARGV[3], 2) then return error_reply('STALE ' .. owner) end
local record = call('HGET', JOBS, id)
local r = record and read(record)
if not r or r.entries then return {'', ''} end
local step = min(50, portion(r))
while count < 200 and bytes < PORTION_BYTES do
  local entries = spilled_entries(first, id, from, step)
  if not entries[1] then break end
  for i = 1, #entries do
    add_entry(out, entries[i])
    bytes = bytes + #entries[i].payload + #entries[i].context
  end
  from, count = from + #entries, count + #entries
end
return {table.concat(out), from == count and error_of(first, id, r) or ''}
