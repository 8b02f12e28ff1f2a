-- include: prelude keys record runs comes_back
-- RECORDS: reads ids with their payloads: what waits, what waits behind a run, what runs or what is dead.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting (behind a run if there is one), behind, running, dead; 3 limit of payloads an id, 4 how many of the first id's the caller has
--       already, 5 bytes of payloads an id, 0: any number, 6 bytes within which the first ids of the call get one that is larger,
--       7.. ids, at most 1,000
-- Returns {now, looked at, next, id, run or '', behind, count, record, ...}: behind is 1 for what waits while the id runs; count
--   is of all its payloads, the record is never a spilled one. An answer stops at 384 KiB or 250 payloads; the caller asks for the
--   other ids. next: where the last id's payloads go on for the caller, who passes it as 4 with this id; 0: it has all.
local part, limit, from = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local SHARE, WITHIN = tonumber(ARGV[5]), tonumber(ARGV[6])
local ids = {unpack(ARGV, 7)}
if not (limit and from and SHARE and WITHIN) then return error_reply('ERR wrong arguments') end
local answer, bytes, payloads = {format('%.0f', now), 0, 0}, 0, 0
local store = part == 'dead' and morgue or first

-- How many payloads of a spilled record the caller gets.
local function most_of(r)
  if SHARE == 0 then return limit end
  local most = math.floor(SHARE / max(1, r.largest))
  if most == 0 and bytes + r.largest <= WITHIN then return 1 end
  return min(limit, most)
end

-- A spilled record with some of its payloads inside, or with none.
local function unspilled(where, id, r)
  local most = most_of(r)
  local count = min(most - from, portion(r))
  r.entries = count > 0 and spilled_entries(where, id, from, count) or {}
  set_error(r, error_of(where, id, r))
  local got = from + #r.entries
  if r.entries[1] and got < min(most, r.count) then answer[3] = got end
  payloads = payloads + #r.entries
  return encode(r)
end

for i = 1, #ids do
  if bytes >= PORTION_BYTES or payloads >= PORTION or answer[3] > 0 then break end
  local id, where = ids[i], store
  local run = part ~= 'dead' and run_of(id)
  local unites = is_uniting(run)
  if part == 'behind' or run and part == 'waiting' and not (unites and comes_back(id, run)) then where = second end
  local record = (part ~= 'running' or run and not unites) and call('HGET', where.hash, id)
  if record then
    local r = read(record)
    local count = r.count or 1
    if not r.entries then record = unspilled(where, id, r) end
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4], answer[at + 5] =
      id, run or '', where == second and 1 or 0, count, record
    bytes = bytes + #record
  end
  answer[2], from = i, 0
end
return answer
