-- include: prelude keys record runs comes_back
-- SCAN: a slice of all ids of one kind, in no order; the reader sorts.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, behind (waiting while the id runs), running, dead; 3 cursor ('0' at first)
-- Returns {cursor ('0' at the end), id, due, retry_count, ...}. Parked ids are left out. An id may come twice. Of one that is uniting
--   the part behind has the due time and retry_count of the record with which it comes back, because that is the one that is shown.
local part = ARGV[2]
local key = ({waiting = JOBS, behind = NEXT, dead = DEAD})[part]
local page = part == 'running' and scan_runs(ARGV[3], 100) or call('HSCAN', key, ARGV[3], 'COUNT', 100)
local flat, answer = page[2], {page[1]}
local runs = {}
if (part == 'waiting' or part == 'behind') and flat[1] then
  local ids = {}
  for i = 1, #flat, 2 do ids[#ids + 1] = flat[i] end
  runs = runs_of(ids)
end
for i = 1, #flat, 2 do
  local id, record, due, retry = flat[i], flat[i + 1], 0, -1
  local run = runs[(i + 1) / 2]
  local skip = part == 'waiting' and (run and not is_uniting(run) or byte(record) % RECORD_PLACES == PLACE_PARKED)
  if not skip then
    if part ~= 'running' then
      record = part == 'behind' and is_uniting(run) and comes_back(id, run) or record
      due = unpack_struct('<d', record, RECORD_DUE + 1)
      if byte(record) >= RECORD_FULL then retry = unpack_struct('<i4', record, RECORD_RETRY + 1) end
    end
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3] = id, format('%.0f', due), retry
  end
end
return answer
