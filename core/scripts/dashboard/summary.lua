-- SUMMARY: the figures of shards that an overview of many queues shows; as cheap as can be.
-- KEYS: the states of shards with one generation; the others' names begin like each state's, with the same hash tag
-- ARGV: 1 generation
-- Returns {now, then of each shard: waiting, retries, busy, parked, dead, delayed, earliest_due, change, scheduled, state}; of one that was
--   never used all is 0, the state ''. earliest_due: the smallest due time of what waits; delayed:
--   waiting ids that never failed and are not due; change: when that will be another number; times are 9e15 for never.
--   scheduled: payloads with a deliver_at that no claim has moved; otherwise they count in earliest_due and change alone.
--   While the state stays as it is, nothing runs and `change` lies ahead, all but `now` stays. delayed is exact while at most
--   100 ids have failed, or at most 100 of them are overdue; else it may say too few. Error replies: GENERATION n
local call, min = redis.call, math.min
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Of the shard that is looked at.
local prefix, RUNNING, CLAIMS, held, busy, retries, earliest_due, delayed, change
-- include: earliest_due

-- Ids that failed and wait for their back-off are not delayed. Few of the failed are overdue, or few failed at all.
local FEW = 100
local function failed_later(DUE, first)
  local RETRY = prefix .. 'retry'
  if retries <= FEW then
    local failed, count = call('ZINTER', '2', DUE, RETRY), 0
    if first > now then return #failed end
    local scores = failed[1] and call('ZMSCORE', DUE, unpack(failed)) or failed
    for i = 1, #scores do if tonumber(scores[i]) > now then count = count + 1 end end
    return count
  end
  local overdue, count = call('ZRANGEBYSCORE', DUE, '-inf', string.format('%.0f', now), 'LIMIT', '0', FEW), retries
  local failures = overdue[1] and call('ZMSCORE', RETRY, unpack(overdue)) or {}
  for i = 1, #failures do if failures[i] then count = count - 1 end end
  return count
end

-- `due` holds this many ids, at least one.
local function count_delayed(count)
  local DUE, first = prefix .. 'due', head('due')
  if first > now then
    delayed, change = count, first
  else
    local later = string.format('(%.0f', now)
    delayed = call('ZCOUNT', DUE, later, '+inf')
    if delayed == 0 then return end
    change = tonumber(call('ZRANGEBYSCORE', DUE, later, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2])
  end
  if retries > 0 then delayed = math.max(0, delayed - failed_later(DUE, first)) end
end

local function figures(state)
  local count, flags, delivers = struct.unpack('<dBd', state, STATE_HELD + 1)
  held, held_runs, earliest_due, delayed, change = count, nil, 9e15, 0, 9e15
  RUNNING, CLAIMS = prefix .. 'running', prefix .. 'claims'
  busy, retries = running_count(), call('ZCARD', prefix .. 'retry')
  local parked, dead, due = call('ZCARD', prefix .. 'parked'), call('HLEN', prefix .. 'dead'), call('ZCARD', prefix .. 'due')
  local waiting = call('HLEN', prefix .. 'jobs') - busy - parked
  if waiting > 0 then
    if due > 0 then count_delayed(due) end
    if flags % (2 * FLAG_DOUBTED) >= FLAG_DOUBTED then head('unproven') head('suspect') end
    if flags % (2 * FLAG_SOURCE) >= FLAG_SOURCE then head('moving') end
    ready_head()
  end
  if delivers <= now then earliest_due = min(earliest_due, delivers) else change = min(change, delivers) end
  local scheduled = delivers < 9e15 and call('ZCARD', prefix .. 'scheduled') or 0
  if busy > 0 then waiting = waiting + call('HLEN', prefix .. 'next') end
  return waiting, retries, busy, parked, dead, delayed, earliest_due, change, scheduled, state
end

local answer, states = {now}, call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local state, row = states[i], {0, 0, 0, 0, 0, 0, 0, 0, 0, ''}
  if state then
    local generation = struct.unpack('<d', state)
    if math.abs(generation) ~= tonumber(ARGV[1]) then return redis.error_reply(string.format('GENERATION %.0f', generation)) end
    prefix = string.sub(KEYS[i], 1, -6)
    row = {figures(state)}
  end
  for k = 1, #row do answer[#answer + 1] = row[k] end
end
return answer
