-- include: prelude keys change flags notices told_id outboxes moving
-- FOREIGN: lists ids that lie in another shard by the new number of shards, a slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 kind: jobs, scheduled, dead, scores, events, notices or outboxes; 3 cursor ('0' at first)
-- Returns {cursor ('0' at the end), mark, id, extra, ...}: extra is to be handed to depart.lua with its id, in MessagePack: the
--   number of a notice, or {name of an outbox, numbers of jobs}; '!' if a node is to tell a notice. An id may be listed twice, and
--   one that stays here if the ids are long. mark: what out.lua is told of the first call of a scan, whose kinds are looked through
--   in the order above. In a shard that no id leaves, nothing is listed.
local TESTED_BYTES, PAGE = 16384, 100
local kind, cursor = ARGV[2], ARGV[3]
local is_foreign = foreign_test()
local answer = {'0', call('HGET', RESHARD, 'mark') or '0'}
if not is_foreign then return answer end

-- Long ids are listed untested, because testing takes a while; the caller leaves out those that stay.
local tested = 0
local function list(id, extra)
  tested = tested + #id
  if tested > TESTED_BYTES or is_foreign(id) then answer[#answer + 1], answer[#answer + 2] = id, extra end
end

-- A slice of a hash or a sorted set; id_of gives the id of a field or member.
local function scan(command, key, id_of)
  local page = call(command, key, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do list(id_of and id_of(page[2][i]) or page[2][i], '') end
  answer[1] = page[1]
end

-- Jobs are looked through three times: by their due times; in the ready list, from its end, because claims take from its head; and
-- all of the hash. The first two are about the order in which the ids were pushed, so the memory of one lies beside that of the
-- next, and a move takes some 60 % of the CPU of Redis that it takes in the order of the hash. The third one lists what they miss:
-- ids that are parked or in doubt, and those whose place changes meanwhile.
-- The cursor says where the next call goes on: 'due SCORE PASSED LEFT', PASSED entries behind the first one of this score; 'ready
-- PASSED LEFT', PASSED entries from the end; 'all CURSOR', that of HSCAN. LEFT entries are yet to be looked at: no more than there
-- were at first, or a walk might never end where as many are added.
local walks = {}

function walks.due(score, passed, left)
  local first = call('ZCOUNT', DUE, '-inf', '(' .. score) + passed
  local page, same = call('ZRANGE', DUE, first, first + PAGE - 1, 'WITHSCORES'), 0
  local last = page[#page]
  for i = 1, #page, 2 do
    list(page[i], '')
    if page[i + 1] == last then same = same + 1 end
  end
  left = left - PAGE
  if left <= 0 or #page < 2 * PAGE then return format('ready 0 %d', call('LLEN', READY)) end
  return format('due %s %d %d', last, last == score and same + passed or same, left)
end

-- Entries may be stale.
function walks.ready(passed, left)
  local ids = call('LRANGE', READY, -passed - PAGE, -passed - 1)
  local records = ids[1] and call('HMGET', JOBS, unpack(ids)) or {}
  for i = #ids, 1, -1 do
    if records[i] then list(ids[i], '') end
  end
  left = left - PAGE
  return left > 0 and #ids == PAGE and format('ready %d %d', passed + PAGE, left) or 'all 0'
end

function walks.all(place)
  cursor = place
  scan('HSCAN', JOBS)
  return answer[1] == '0' and '0' or 'all ' .. answer[1]
end

local function list_jobs()
  if cursor == '0' then cursor = format('due -inf 0 %d', call('ZCARD', DUE)) end
  local walk, place, second, third = string.match(cursor, '^(%l+) (%S+) ?(%d*) ?(%d*)$')
  if not walks[walk or ''] then return error_reply('ERR wrong cursor') end
  answer[1] = walks[walk](place, second, third)
  return answer
end

local function list_notices()
  local entries, ids, following = told_ids(cursor)
  for i = 1, #entries do
    local number = sub(entries[i], -8)
    if ids[i] then list(ids[i], sub(entries[i], 1, -10) == '' and cmsgpack.pack(number) or '!') end
  end
  answer[1] = following
end

-- What is added before the cursor, meanwhile, is of ids that an earlier kind has.
local function list_outboxes()
  local name, members, following = slice_of_outboxes(cursor)
  local ids, numbers = {}, {}
  for i = 1, #members do
    local id = sub(members[i], 9)
    if not numbers[id] then ids[#ids + 1], numbers[id] = id, '' end
    numbers[id] = numbers[id] .. sub(members[i], 1, 8)
  end
  for i = 1, #ids do list(ids[i], cmsgpack.pack({name, numbers[ids[i]]})) end
  answer[1] = following
end

if kind == 'jobs' then
  return list_jobs()
elseif kind == 'scheduled' then
  scan('ZSCAN', PREFIX .. 'scheduled', function(member) return sub(member, 9) end)
elseif kind == 'dead' then
  scan('HSCAN', DEAD)
elseif kind == 'scores' then
  scan('HSCAN', PREFIX .. 'scores')
elseif kind == 'events' then
  scan('ZSCAN', PREFIX .. 'traced')
elseif kind == 'notices' then
  list_notices()
elseif kind == 'outboxes' then
  list_outboxes()
else
  return error_reply('ERR wrong kind')
end
return answer
