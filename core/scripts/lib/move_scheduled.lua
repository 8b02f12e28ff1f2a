-- library: move_scheduled - for a claim: moves scheduled payloads whose deliver_at has come into the records of their ids, a slice a call.
-- The keys of scheduled payloads are in scheduled.lua; find_payload.lua looks up one payload by its handle.
-- It needs note, record, join, scheduled, scores and spread.
--
-- A claim moves a slice before it takes. What a slice leaves is moved by the claims that follow at once, and may come behind the run of
-- its id (decision 29). In the order of deliver_at, so that an id's payloads without a score of their own arrive in theirs.

-- A slice has at most ARRIVALS payloads and takes about ARRIVAL_COST microseconds of Redis, most of them for the SHA-1 of payloads.
local ARRIVALS, ARRIVAL_COST = 100, 2500
local postponed = 0 -- payloads that this call could not unite with the record of their id
local ARRIVAL_WORDS = {'keep', 'earlier', 'later', 'replace'} -- reject and unique act at the push: keep

-- The payloads of a slice by id, in their order: {id, stamps, jobs, unreadable entries, number of stale jobs}; and what they cost.
local function due_payloads()
  local flat = call('ZRANGEBYSCORE', SCHEDULED, '-inf', format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, ARRIVALS)
  local groups, by_id, cost = {}, {}, 0
  for i = 1, #flat, 2 do
    local stamp, id = sub(flat[i], 1, 8), sub(flat[i], 9)
    local text = call('HGET', SCHEDMAP .. id, stamp)
    cost = cost + 15 + (text and #text / 128 or 0)
    if cost > ARRIVAL_COST and i > 1 then break end
    local group = by_id[id]
    if not group then
      group = {id = id, stamps = {}, jobs = {}, unreadable = {}, stale = 0}
      groups[#groups + 1], by_id[id] = group, group
    end
    group.stamps[#group.stamps + 1] = stamp
    local ok, job = pcall(read_scheduled, text, stamp, tonumber(flat[i + 1]))
    if ok then
      job.word = ARRIVAL_WORDS[job.word] or 'keep'
      group.jobs[#group.jobs + 1] = job
    elseif text then
      group.unreadable[#group.unreadable + 1] = {stamp = unpack_struct('>d', stamp), score = now / 1e6, context = '', payload = text}
    end
  end
  return groups, cost
end

-- All keys that an arrival writes, but for those of the shard, before the first write.
local function probe_arrivals(groups)
  local ids = {}
  for i = 1, #groups do ids[i] = groups[i].id end
  probe_spill(first, ids)
  probe_spill(second, ids)
  probe_spill(morgue, ids)
  probe_scheduled(ids)
  return ids
end

-- Payloads whose id has a record that cannot be read stay scheduled, and are tried again a minute later: check moves such a record
-- to the morgue. What comes due for other ids arrives meanwhile.
local RETRY_AFTER = 60000000
local function postpone(group)
  local time, count = format('%.0f', now + RETRY_AFTER), #group.stamps
  for i = 1, count do
    call('ZADD', SCHEDULED, time, group.stamps[i] .. group.id)
    call('ZADD', SCHED .. group.id, time, group.stamps[i])
  end
  postponed = postponed + count
end

local function can_read(record) return not record or pcall(read, record) end

local function arrive_group(group, run, record, newer, fold)
  if group.jobs[1] and not can_read(run and newer or not run and record)
    or group.unreadable[1] and not can_read(call('HGET', DEAD, group.id)) then
    postpone(group)
    return
  end
  if group.stale > 0 then
    stale = stale + group.stale
    note(group.id, EVENT_STALE, group.stale)
  end
  if group.unreadable[1] then
    bury(group.id, group.unreadable, 'the scheduled payload cannot be read', fold)
    note(group.id, EVENT_BURIED, #group.unreadable, 'the scheduled payload cannot be read')
  end
  for i = 1, #group.jobs do note(group.id, EVENT_ARRIVED, group.jobs[i].due > now and group.jobs[i].due) end
  if group.jobs[1] and run then
    join_behind(group.id, newer, group.jobs, fold)
  elseif group.jobs[1] then
    join_waiting(group.id, record, group.jobs, fold)
  end
  unschedule(group.id, group.stamps)
end

-- Takes out of a group the jobs whose score is not above `remembered`, that of their id. Their number is group.stale then.
local function take_stale(group, remembered)
  local kept = {}
  for j = 1, #group.jobs do
    local e = group.jobs[j].entries[1]
    if e.score > remembered or not has_own_score(e) then kept[#kept + 1] = group.jobs[j] end
  end
  group.stale = #group.jobs - #kept
  group.jobs = kept
end

-- Moves a slice, after probe(). Returns whether it took so long that the call is to do nothing else of size,
-- and the number of stale payloads, which are gone.
local function arrive(fold)
  local groups, cost = due_payloads()
  local ids, stale_before = probe_arrivals(groups), stale
  if remembers == 1 then
    probe_scores()
    local remembered = scores_of(ids)
    for i = 1, #groups do
      if remembered[ids[i]] then take_stale(groups[i], remembered[ids[i]]) end
    end
  end
  call('ZREM', DUE, '') -- at maxmemory Redis allows what follows an allowed first write
  if ids[1] then
    if may_hold(ids) then spread() end
    local runs, records, newer = call('HMGET', RUNNING, unpack(ids)), call('HMGET', JOBS, unpack(ids)), call('HMGET', NEXT, unpack(ids))
    for i = 1, #groups do arrive_group(groups[i], runs[i], records[i], newer[i], fold) end
  end
  note_delivers()
  return cost > ARRIVAL_COST, stale - stale_before
end
