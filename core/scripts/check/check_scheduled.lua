-- include: prelude change flags owner scheduled
-- CHECK_SCHEDULED: do the keys of scheduled payloads agree? With repair, mends them: no payload is lost.
-- KEYS: the shard's
-- ARGV: as check.lua's: 1 generation, 2 part, 3 cursor ('0' at first), 4 '1' to repair, 5 id
--   parts: scheduled: a slice of it, and what the state says of the first; sched, schedmap: that key of the id
-- Returns as check.lua
local part, cursor, repair, id = ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local MOST = 1000 -- entries of an id that are compared
local looked = 1
-- include: finding

local function check_scheduled()
  if not is_of(SCHEDULED, 'zset') then return end
  local soonest = tonumber(call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]) or FOREVER
  if cursor == '0' and soonest ~= delivers then
    find('state', '', 'state names another time of the first delivery', function() end)
  end
  local page = call('ZSCAN', SCHEDULED, cursor, 'COUNT', 50)
  cursor, looked = page[1], #page[2] / 2
  for i = 1, #page[2], 2 do
    local member, time = page[2][i], page[2][i + 1]
    local stamp, whose = sub(member, 1, 8), sub(member, 9)
    local is_left = call('HEXISTS', PREFIX .. 'leaving', whose) == 1 -- departed.lua removes the entries of such an id
    if not is_left and call('HEXISTS', SCHEDMAP .. whose, stamp) == 0 then
      find('stale', whose, 'entry in scheduled leads to nothing', function() unschedule(whose, {stamp}) end)
    elseif not is_left and tonumber(call('ZSCORE', SCHED .. whose, stamp) or nil) ~= tonumber(time) then
      find('index', whose, 'missing in sched, or has another number', function() call('ZADD', SCHED .. whose, time, stamp) end)
    end
  end
end

local function check_sched()
  if not is_of(SCHED .. id, 'zset') then return end
  local flat = call('ZRANGE', SCHED .. id, 0, MOST - 1, 'WITHSCORES')
  looked = #flat / 2
  for i = 1, #flat, 2 do
    if not call('ZSCORE', SCHEDULED, flat[i] .. id) then
      find('index', id, 'missing in scheduled', function() call('ZADD', SCHEDULED, flat[i + 1], flat[i] .. id) end)
    end
  end
end

local function check_schedmap()
  if not is_of(SCHEDMAP .. id, 'hash') or not is_of(SCHED .. id, 'zset') then return end
  looked = call('HLEN', SCHEDMAP .. id)
  if looked <= call('ZCARD', SCHED .. id) then return end
  local stamps = looked <= MOST and call('HKEYS', SCHEDMAP .. id) or {}
  if not stamps[1] then find('orphan', id, 'payloads in schedmap are not scheduled') end
  for i = 1, #stamps do
    local stamp = stamps[i]
    if not call('ZSCORE', SCHED .. id, stamp) then
      find('orphan', id, 'a payload in schedmap is not scheduled', function()
        call('ZADD', SCHEDULED, format('%.0f', now), stamp .. id)
        call('ZADD', SCHED .. id, format('%.0f', now), stamp)
      end)
    end
  end
end

if part == 'scheduled' then check_scheduled() elseif part == 'sched' then check_sched() else check_schedmap() end
if fixes[1] then
  open_for_writing()
  for i = 1, #fixes do fixes[i]() end
  note_delivers()
  save()
  tell_owner()
end
return {part == 'scheduled' and cursor or '0', looked, found, {}}
