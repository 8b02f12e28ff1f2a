-- SAMPLE: what a queue's history is made of, of a few of its shards; as cheap as can be, for every queue is asked every ten seconds.
-- KEYS: the states of shards, in the order of their numbers; the others' names begin like each state's, with the same hash tag
-- ARGV: 1 generation
--       2 how many of them have ids, and so have this generation; the others have nothing but the counters of jobs that have ended
-- Returns {now, processed, failed, pushed, earliest_due}: the sums of the shards' counters, which never fall, and the smallest due time of
--   what waits or is scheduled in any of them (9e15: nothing is); times are in microseconds. Error replies: GENERATION n
local call, min = redis.call, math.min
local clock = call('TIME')

-- Of the shard that is looked at; earliest_due is of all.
local prefix, RUNNING, CLAIMS, held, busy
local earliest_due = 9e15
-- include: earliest_due

local function look(flags, delivers)
  RUNNING, CLAIMS, held_runs = prefix .. 'running', prefix .. 'claims', nil
  earliest_due = min(earliest_due, delivers)
  if call('HLEN', prefix .. 'jobs') == 0 then return end
  busy = running_count()
  head('due')
  if flags % (2 * FLAG_DOUBTED) >= FLAG_DOUBTED then head('unproven') head('suspect') end
  if flags % (2 * FLAG_SOURCE) >= FLAG_SOURCE then head('moving') end
  ready_head()
end

local processed, failed, pushed = 0, 0, 0
local states = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local state = states[i]
  if state then
    local generation, _, _, _, _, _, done, bad, _, came, in_claims, flags, delivers = struct.unpack(STATE_FORMAT, state)
    processed, failed, pushed, held = processed + done, failed + bad, pushed + came, in_claims
    if i <= tonumber(ARGV[2]) then
      if math.abs(generation) ~= tonumber(ARGV[1]) then return redis.error_reply(string.format('GENERATION %.0f', generation)) end
      prefix = string.sub(KEYS[i], 1, -6)
      look(flags, delivers)
    end
  end
end
local function whole(number) return string.format('%.0f', number) end
return {whole(clock[1] * 1000000 + clock[2]), whole(processed), whole(failed), whole(pushed), whole(earliest_due)}
