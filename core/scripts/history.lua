-- HISTORY: adds to what a queue's history says of the present: processed, failed, enqueued, and the largest lag.
-- KEYS: 1 history hash: seconds of a step -> number of the last step <d, then up to so many steps, oldest first, each
--         processed <I4, failed I4, enqueued I4, lag f in seconds (all bytes 255: nothing was said); last -> ARGV[5]
-- ARGV: 1 processed, 2 failed, 3 enqueued, 4 lag in microseconds, 5 a text that no other call has, or ''
-- Returns 1, or 0 when the last call had the same text: it was sent twice. Bounded: 816 steps of 16 bytes; gone 8 days
-- after the last call.
local KEY, call = KEYS[1], redis.call
local RINGS = {{10, 360}, {300, 288}, {3600, 168}}
local EMPTY, LARGEST = string.rep('\255', 16), 4294967294
local more = {tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) / 1000000}
local now = tonumber(call('TIME')[1])
local known = call('HMGET', KEY, 'last', '10', '300', '3600')
if ARGV[5] ~= '' and known[1] == ARGV[5] then return 0 end

local function sum(step)
  local a, b, c, lag = 0, 0, 0, 0
  if step ~= EMPTY then a, b, c, lag = struct.unpack('<I4I4I4f', step) end
  return struct.pack('<I4I4I4f', math.min(a + more[1], LARGEST), math.min(b + more[2], LARGEST),
    math.min(c + more[3], LARGEST), math.max(lag, more[4]))
end

-- The ring with the step numbered `at` as its last.
local function turn(ring, at, size)
  local last, steps = at, ''
  if ring and #ring >= 24 then last, steps = struct.unpack('<d', ring), string.sub(ring, 9) end
  if last > at then at = last end
  if at - last >= size then steps = '' else steps = steps .. string.rep(EMPTY, at - last) end
  if steps == '' then steps = EMPTY end
  steps = string.sub(steps, 1, -17) .. sum(string.sub(steps, -16))
  return struct.pack('<d', at) .. string.sub(steps, -size * 16)
end

call('HDEL', KEY, '')
local fields = {'last', ARGV[5]}
for i = 1, #RINGS do
  local step, size = RINGS[i][1], RINGS[i][2]
  fields[#fields + 1] = tostring(step)
  fields[#fields + 1] = turn(known[i + 1], math.floor(now / step), size)
end
call('HSET', KEY, unpack(fields))
call('PEXPIRE', KEY, 691200000)
return 1
