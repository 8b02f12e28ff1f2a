-- include: prelude keys record runs comes_back
-- BROWSE: a slice of a shard's ids in no order, for pages that read what no index holds; each call takes a millisecond or so.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 part: waiting, behind (waiting while the id runs), all (waiting, parked or running), running, parked,
--       retrying, dead; 3 cursor ('0' at first), 4 how many to look at (0: only tell the total), 5 what of them: ids, due, hot
--       (those with the most payloads), errors or whole (what failed); 6 a text that ids must begin with
-- Returns {now, ids of the part, cursor ('0' at the end), how many of these the slice has, whatever they begin with; of a total:
--   how many ids lie where they are read, id, number, text, ...}: of hot the number is of payloads, of an
--   id that is uniting those of both its records;
--   of due, errors and whole it is the due time, the time of death or the fence of a run; the text of errors is the first line,
--   713 bytes of it (ERRORS_KEPT of core/src/web/errors.c, and one), that of whole all of the error, so whole is asked of few ids a call.
local part, cursor, count, what, prefix = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local hash = ({waiting = JOBS, all = JOBS, behind = NEXT, running = RUNNING, dead = DEAD})[part]
local set = ({parked = PARKED, retrying = RETRY})[part]
local MOST = 20

local busy = running_count()
local size = set and call('ZCARD', set) or call('HLEN', hash)
local total = part == 'running' and busy or part == 'waiting' and size - busy - call('ZCARD', PARKED) or size
local answer = {format('%.0f', now), total, '0', size}
if count == 0 then return answer end

local page = part == 'running' and scan_runs(cursor, count) or call(set and 'ZSCAN' or 'HSCAN', set or hash, cursor, 'COUNT', count)
local flat, ids, found = page[2], {}, {}
answer[3] = page[1]
for i = 1, #flat, 2 do ids[#ids + 1] = flat[i] end
local records, runs = {}, {}
local unites = what == 'hot' and call('ZCARD', UNITING) > 0
if ids[1] and (unites or part == 'waiting' and busy > 0) then runs = runs_of(ids) end
if set and what ~= 'ids' and ids[1] then records = call('HMGET', JOBS, unpack(ids)) end

local function add(id, number, text)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = id, number, text
end

local function count_of(record) return byte(record) >= RECORD_FULL and select(4, unpack_struct('<di4BI4', record, RECORD_DUE + 1)) or 1 end

-- How many payloads of an id wait, of which a record was read.
local function waiting_of(id, record, run)
  if not is_uniting(run) then return count_of(record) end
  local before, newer = comes_back(id, run), call('HGET', NEXT, id)
  return (before and count_of(before) or 0) + (newer and count_of(newer) or 0)
end

local function take(id, record, run)
  if what == 'ids' then
    add(id, 0, '')
  elseif what == 'due' then
    add(id, part == 'running' and sub(record, 3) or format('%.0f', unpack_struct('<d', record, RECORD_DUE + 1)), '')
  elseif what == 'hot' then
    found[#found + 1] = {id, waiting_of(id, record, run)}
  elseif byte(record) >= RECORD_FULL then
    local due, _, mark, _, error = unpack_struct(HEADER, record, RECORD_DUE + 1)
    if what == 'errors' then error = sub(string.match(error, '^[^\r\n]*'), 1, 713)
    else error = error_of(part == 'dead' and morgue or first, id, {cut = mark % MARK_DELIVERED >= MARK_CUT, error = error}) end
    add(id, format('%.0f', due), error)
  end
end

local of_part = 0
for i = 1, #ids do
  local id, record = ids[i], records[i] or (hash and flat[2 * i])
  local is_other = part == 'waiting' and (runs[i] and not is_uniting(runs[i]) or byte(record) % RECORD_PLACES == PLACE_PARKED)
  if not is_other then of_part = of_part + 1 end
  if not is_other and sub(id, 1, #prefix) == prefix and (record or what == 'ids') then take(id, record, runs[i]) end
end
answer[4] = of_part

if #found > MOST then table.sort(found, function(a, b) return a[2] > b[2] end) end
for i = 1, min(MOST, #found) do add(found[i][1], found[i][2], '') end
return answer
