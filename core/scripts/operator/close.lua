-- CLOSE: nobody of the present layout changes the shard any more, before its queue is deleted. Not under the prelude: the shard
-- is still of the generation before.
-- KEYS: the shard's
-- ARGV: 1 the generation after the present one; a closed shard has it as a negative number, and its tick goes on
-- Returns {ids that wait, run or are parked, ids behind a run, dead ids, scheduled payloads}. Error replies: GENERATION n (of a
--   later generation)
local call, target, state = redis.call, tonumber(ARGV[1]), redis.call('GET', KEYS[1])
local generation = state and struct.unpack('<d', state) or 0
if math.abs(generation) > target then return redis.error_reply(string.format('GENERATION %.0f', generation)) end
local prefix = string.sub(KEYS[1], 1, -6)
local counts = {call('HLEN', prefix .. 'jobs'), call('HLEN', prefix .. 'next'), call('HLEN', prefix .. 'dead'), call('ZCARD', prefix .. 'scheduled')}
if math.abs(generation) < target then
  local rest = string.sub(state or struct.pack(STATE_FORMAT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9e15, 0, 0, 0, 0, 9e15, 0, 0), 9)
  call('HDEL', prefix .. 'jobs', '') -- a first write that Redis allows at maxmemory
  call('SET', KEYS[1], struct.pack('<d', -target) .. rest)
end
return counts
