-- SAMPLE_IDLE: measures queues in which nothing waits, several in a call, and writes the samples: most queues are
-- idle most of the time, and their lag is 0. It names the others, which take a call of sample.lua and one of history.lua.
-- KEYS: the layout and the history of each queue; the shards' names begin like the layout's
-- ARGV: 1 as history.lua's sixth, 2 shards after which it ends; a queue that alone has more is named
-- Returns {how many of the queues it has looked at, the place of each that is not idle...}
local call = redis.call
-- include: steps
local since, left = tonumber(ARGV[1]), tonumber(ARGV[2])
if not since or not (since >= 0 and since <= 9e15) or not left or left ~= left or #KEYS % 2 == 1 then
  return redis.error_reply('ERR wrong arguments')
end
local clock = call('TIME')
local time = clock[1] * 1000000 + clock[2]

-- The sums of the counters of all shards, or nil: something waits, or another script is to say what is wrong. Only the
-- first `used` shards have ids; the others keep the generation of the last layout that they were turned to.
local function idle_counters(queue, generation, used, shards)
  local prefixes, names = {}, {}
  for i = 1, shards do
    prefixes[i] = string.format('%s/%d}:', queue, i - 1)
    names[i] = prefixes[i] .. 'state'
  end
  local states, sums = call('MGET', unpack(names)), {0, 0, 0}
  for i = 1, shards do
    local state = states[i]
    if state then
      if #state < STATE_OWNER then return nil end
      local found, _, _, _, _, _, done, bad, _, came = struct.unpack('<dddddddddd', state)
      if i <= used and (math.abs(found) ~= generation or call('HLEN', prefixes[i] .. 'jobs') > 0 or struct.unpack('<d', state, STATE_DELIVERS + 1) <= time) then return nil end
      sums[1], sums[2], sums[3] = sums[1] + done, sums[2] + bad, sums[3] + came
    end
  end
  for i = 1, 3 do
    if not (sums[i] >= 0 and sums[i] <= 9e15) then return nil end
  end
  return sums
end

local answer = {0}
for i = 1, #KEYS, 2 do
  local layout = call('GET', KEYS[i])
  local generation, shards, schema, old, most = string.match(layout or '', '^(%d+) (%d+) (%d+) ?(%d*) ?(%d*)')
  -- A shard that the queue has no more keeps its counters, and the history goes by the sums.
  local used = math.max(tonumber(shards) or 0, tonumber(old) or 0)
  generation, shards = tonumber(generation), tonumber(schema == '4' and most or shards)
  if layout and (not shards or shards > tonumber(ARGV[2])) then
    answer[#answer + 1] = (i + 1) / 2
  elseif layout then
    left = left - shards
    if left < 0 then break end
    local counters = idle_counters(string.sub(KEYS[i], 1, -9), generation, used, shards)
    if counters then add_sample(KEYS[i + 1], time, counters, 0, since) else answer[#answer + 1] = (i + 1) / 2 end
  end
  answer[1] = (i + 1) / 2
end
return answer
