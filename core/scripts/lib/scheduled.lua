-- library: scheduled - the keys of scheduled payloads (their deliver_at has not come): writes, reads and removes them.
-- move_scheduled.lua moves them when their time has come. docs/internals/layout.md describes the keys.
--
-- A payload is named by its arrival, the stamp of its push, as 8 bytes >d. It keeps it when it is moved into the record of its id.
-- How it was pushed is kept as: has B (1 score, 2 perform_in, 4 delay), score d, time d (microseconds; of a delay from deliver_at
-- on), retry_count i4, on_waiting B (place of the word in push.lua's WORDS), context I4+bytes, payload.
-- The state's `delivers` is the smallest deliver_at of the shard: what tells claims, without another command, that there is
-- nothing to move.
local SCHEDULED = PREFIX .. 'scheduled'
local SCHED, SCHEDMAP = PREFIX .. 'sched:', PREFIX .. 'schedmap:'

-- A key of the wrong type ends the script here, before anything is written.
local function probe_scheduled(ids)
  call('ZCARD', SCHEDULED)
  for i = 1, #ids do call('ZCARD', SCHED .. ids[i]) call('HLEN', SCHEDMAP .. ids[i]) end
end

local function schedule(id, stamp, at, text)
  local time = format('%.0f', at)
  call('ZADD', SCHEDULED, time, stamp .. id)
  call('ZADD', SCHED .. id, time, stamp)
  call('HSET', SCHEDMAP .. id, stamp, text)
  delivers = min(delivers, at)
end

-- After scheduled payloads went.
local function note_delivers() delivers = tonumber(call('ZRANGE', SCHEDULED, 0, 0, 'WITHSCORES')[2]) or FOREVER end

-- Removes scheduled payloads of an id, by their stamps, at most some hundred a call. The caller calls note_delivers.
local function unschedule(id, stamps)
  local members = {}
  for i = 1, #stamps do members[i] = stamps[i] .. id end
  call('ZREM', SCHEDULED, unpack(members))
  call('ZREM', SCHED .. id, unpack(stamps))
  call('HDEL', SCHEDMAP .. id, unpack(stamps))
end

-- A scheduled payload as it arrives: the record that it makes where nothing waits, with its on_waiting word's place. An error is
-- raised where the text cannot be read. The context of one without a score of its own says so (stored.h).
local function read_scheduled(text, stamp, at)
  local has, score, time, retry, word, context, place = unpack_struct('<Bddi4BI4c0', text)
  local due = at
  if has % 8 >= 4 then due = at + max(0, time) elseif has % 4 >= 2 then due = max(at, time) end
  if has % 2 == 0 then
    score = at / 1e6
    context = char(CONTEXT_DELIVERED) .. pack('<d', score) .. context
  end
  local entry = {stamp = unpack_struct('>d', stamp), score = score, context = context, payload = sub(text, place)}
  return {place = PLACE_DUE, due = math.floor(due), retry = retry, mark = MARK_NONE, error = '', entries = {entry}, word = word}
end
