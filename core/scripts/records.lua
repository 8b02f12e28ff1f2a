-- include: prelude record runs
-- RECORDS: reads ids with their payloads: what waits, what runs or what is dead.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, running, dead; 3 limit of payloads an id, 4.. ids, at most 1,000
-- Returns {now, looked at, id, run or '', behind, count, record, ...}: behind is 1 for what waits while the id runs; count
--   is of all its payloads, the record is never a spilled one. An answer stops at 1 MiB; the caller asks for the rest.
local part, limit = ARGV[2], tonumber(ARGV[3])
local ids = {unpack(ARGV, 4)}
local answer, bytes = {format('%.0f', now), 0}, 0
local store = part == 'dead' and morgue or first

-- A spilled record with its first payloads inside.
local function unspilled(from, id, r)
  local flat = call('ZRANGE', from.spill .. id, 0, limit - 1, 'WITHSCORES')
  local out = {header(r, 2, #flat / 2)}
  for i = 1, #flat, 2 do
    local stamp, payload = sub(flat[i], 1, 8), sub(flat[i], 9)
    local context = call('HGET', from.map .. id, 'c' .. stamp) or ''
    out[#out + 1] = pack('<ddI4c0I4c0', unpack_struct('>d', stamp), tonumber(flat[i + 1]), #context, context, #payload, payload)
  end
  return table.concat(out)
end

for i = 1, #ids do
  if bytes >= 1048576 then break end
  local id, from = ids[i], store
  local run = part ~= 'dead' and run_of(id)
  if run and part == 'waiting' then from = second end
  local record = (run or part ~= 'running') and call('HGET', from.hash, id)
  if record then
    local r = read(record)
    local count = r.count or 1
    if not r.entries then record = unspilled(from, id, r) end
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4], answer[at + 5] =
      id, run or '', from == second and 1 or 0, count, record
    bytes = bytes + #record
  end
  answer[2] = i
end
return answer
