-- SUMMARY: the figures of a shard that an overview of many queues shows; as cheap as can be.
-- KEYS: 1 the shard's state; the others' names begin alike, with the same hash tag
-- ARGV: 1 generation
-- Returns {now, waiting, retries, busy, parked, dead, delayed, processed, failed, refused, paused, soon, change, owner}, or
--   {now} of a shard that was never used. soon: the smallest due time of what waits; delayed: waiting ids that never failed
--   and are not due; change: when that will be another number; times are 9e15 for never. While the state stays as it is,
--   nothing runs and `change` lies ahead, all but `now` stays. delayed is exact while at most 100 ids have failed, or at most
--   100 of them are overdue; else it may say too few. Error replies: GENERATION n
local call, min = redis.call, math.min
local clock, state = call('TIME'), call('GET', KEYS[1])
local now = clock[1] * 1000000 + clock[2]
local prefix = string.sub(KEYS[1], 1, -6)
if not state then return {now} end

local generation, _, _, _, _, _, processed, failed, refused, _, held, flags = struct.unpack('<dddddddddddB', state)
if generation ~= tonumber(ARGV[1]) then return redis.error_reply(string.format('GENERATION %.0f', generation)) end

local RUNNING, CLAIMS = prefix .. 'running', prefix .. 'claims'
-- include: runs
local jobs, busy, behind = call('HLEN', prefix .. 'jobs'), call('HLEN', RUNNING) + held, 0
local parked, retries = call('ZCARD', prefix .. 'parked'), call('ZCARD', prefix .. 'retry')
if busy > 0 then
  busy, behind = busy - call('HEXISTS', RUNNING, ''), call('HLEN', prefix .. 'next')
end

local soon = 9e15
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
local DUE, RETRY, FEW = prefix .. 'due', prefix .. 'retry', 100
local later = string.format('(%.0f', now)
local function failed_later()
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

local delayed, change = 0, 9e15
local function count_delayed(first)
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

if jobs > busy + parked then
  count_delayed(head('due'))
  if flags % 4 >= 2 then head('unproven') head('suspect') end
  ready_head()
end

return {now, jobs - busy - parked + behind, retries, busy, parked, call('HLEN', prefix .. 'dead'), delayed,
  processed, failed, refused, flags % 2, soon, change, string.sub(state, 90)}
