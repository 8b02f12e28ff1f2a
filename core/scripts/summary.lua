-- SUMMARY: the figures of shards that an overview of many queues shows; as cheap as can be.
-- KEYS: the states of shards with one generation; the others' names begin like each state's, with the same hash tag
-- ARGV: 1 generation
-- Returns {now, then of each shard: waiting, retries, busy, parked, dead, delayed, processed, failed, refused, paused, soon,
--   change, state}; of one that was never used all is 0, the state ''. soon: the smallest due time of what waits; delayed:
--   waiting ids that never failed and are not due; change: when that will be another number; times are 9e15 for never.
--   While the state stays as it is, nothing runs and `change` lies ahead, all but `now` stays. delayed is exact while at most
--   100 ids have failed, or at most 100 of them are overdue; else it may say too few. Error replies: GENERATION n
local call, min = redis.call, math.min
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Of the shard that is looked at.
local prefix, RUNNING, CLAIMS, held, busy, retries, soon, delayed, change
-- include: runs

local function head(kind)
  local found = call('ZRANGE', prefix .. kind, 0, 0, 'WITHSCORES')
  if found[1] then soon = min(soon, tonumber(found[2])) end
  return tonumber(found[2])
end

-- The head of the ready list is nearly sorted, and its entries may be stale.
local function ready_head()
  local from, size = 0, 4
  while from < 500 do
    local ids = call('LRANGE', prefix .. 'ready', from, from + size - 1)
    if not ids[1] then return end
    from, size = from + size, 50
    local records, best = call('HMGET', prefix .. 'jobs', unpack(ids)), 9e15
    local runs = busy > 0 and runs_of(ids) or {}
    for i = 1, #ids do
      local record = records[i]
      if record and not runs[i] and string.byte(record) % 4 == 0 then best = min(best, (struct.unpack('<d', record, 2))) end
    end
    if best < 9e15 then
      soon = min(soon, best)
      return
    end
  end
end

-- Ids that failed and wait for their back-off are not delayed. Few of the failed are overdue, or few failed at all.
local FEW, later = 100, string.format('(%.0f', now)
local function failed_later()
  local DUE, RETRY = prefix .. 'due', prefix .. 'retry'
  if retries <= FEW then
    local count, scores = 0, call('ZMSCORE', DUE, unpack(call('ZRANGE', RETRY, 0, -1)))
    for i = 1, #scores do if scores[i] and tonumber(scores[i]) > now then count = count + 1 end end
    return count
  end
  local overdue, count = call('ZRANGEBYSCORE', DUE, '-inf', string.format('%.0f', now), 'LIMIT', 0, FEW), retries
  local failures = overdue[1] and call('ZMSCORE', RETRY, unpack(overdue)) or {}
  for i = 1, #failures do if failures[i] then count = count - 1 end end
  return count
end

local function count_delayed()
  local DUE, first = prefix .. 'due', head('due')
  if not first then return end
  if first > now then
    delayed, change = call('ZCARD', DUE), first
  else
    delayed = call('ZCOUNT', DUE, later, '+inf')
    if delayed == 0 then return end
    change = tonumber(call('ZRANGEBYSCORE', DUE, later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
  end
  if retries > 0 then delayed = math.max(0, delayed - failed_later()) end
end

local function figures(state)
  local _, _, _, _, _, _, processed, failed, refused, _, count, flags = struct.unpack('<dddddddddddB', state)
  held, held_runs, soon, delayed, change = count, nil, 9e15, 0, 9e15
  RUNNING, CLAIMS = prefix .. 'running', prefix .. 'claims'
  local jobs, behind = call('HLEN', prefix .. 'jobs'), 0
  busy = running_count()
  if busy > 0 then behind = call('HLEN', prefix .. 'next') end
  -- A call costs more than what it does here: most shards have none of these.
  local parked, dead, rare = 0, 0, call('EXISTS', prefix .. 'parked', prefix .. 'retry', prefix .. 'dead', prefix .. 'due') > 0
  retries = 0
  if rare then
    parked, retries, dead = call('ZCARD', prefix .. 'parked'), call('ZCARD', prefix .. 'retry'), call('HLEN', prefix .. 'dead')
  end
  if jobs > busy + parked then
    if rare then count_delayed() end
    if flags % 4 >= 2 then head('unproven') head('suspect') end
    ready_head()
  end
  return jobs - busy - parked + behind, retries, busy, parked, dead, delayed, processed, failed, refused, flags % 2, soon, change, state
end

local answer, states = {now}, call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local state, row = states[i], {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ''}
  if state then
    local generation = struct.unpack('<d', state)
    if generation ~= tonumber(ARGV[1]) then return redis.error_reply(string.format('GENERATION %.0f', generation)) end
    prefix = string.sub(KEYS[i], 1, -6)
    row = {figures(state)}
  end
  for k = 1, #row do answer[#answer + 1] = row[k] end
end
return answer
