-- HISTORY: adds a sample of a queue to its history: its counters, which never fall, and the lag. What came since the sample before
-- is the difference of the counters, so it does not matter who takes samples, or that a sample is sent twice.
-- KEYS: 1 layout (of a queue that is deleted nothing is written), 2 history string: the last sample as time in microseconds <d,
--         processed <d, failed <d, pushed <d; then three rings of steps, 360 of 10 s, 288 of 300 s, 168 of 3600 s; the step with
--         the number n (of its length since 1970) stands at the place n modulo the ring's size, as n <I4, then what came in it:
--         processed <I4, failed <I4, pushed <I4, and the largest lag in seconds <f. Gone 8 days after the last sample
-- ARGV: 1 time of the sample, 2 processed, 3 failed, 4 pushed, 5 lag in microseconds, 6 since when the queue would have been
--         seen had it been there, in microseconds (0: not known): its counters were 0 then, when there is no sample before this
-- Returns 1; 0: nothing was written, for there is no such queue, or a later sample.
-- Steps between two samples share what came between them, if at most a minute lies there. Else nobody measured: those steps stay
-- unknown, and this one tells of what came since only if the sample before is of it or of the step before it.
local call, floor, max, min = redis.call, math.floor, math.max, math.min
local LAYOUT, HISTORY = KEYS[1], KEYS[2]
local RINGS = {{10, 360}, {300, 288}, {3600, 168}}
local HEAD, STEP, LARGEST, FEW = 32, 20, 4294967294, 60
local time, lag, since = tonumber(ARGV[1]), tonumber(ARGV[5]), tonumber(ARGV[6])
local counters = {tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])}
for i = 1, 6 do
  local number = tonumber(ARGV[i])
  if not HISTORY or not number or not (number >= 0 and number <= 9e15) then return redis.error_reply('ERR wrong arguments') end
end
if call('EXISTS', LAYOUT) == 0 then return 0 end

local head, before, seen = call('GETRANGE', HISTORY, 0, HEAD - 1), 0, {0, 0, 0}
if #head == HEAD then
  before, seen[1], seen[2], seen[3] = struct.unpack('<dddd', head)
  if not (before >= 0 and before <= 9e15) then before = 0 end
elseif since > 0 and since < time then
  before = since
end
if time <= before then return 0 end
local came = {0, 0, 0}
if before > 0 then
  -- A shard whose state was lost counts anew.
  for i = 1, 3 do
    local more = counters[i] - seen[i]
    if more > 0 and more <= 9e15 then came[i] = more end
  end
end

local function write(ring, base, number, part, behind)
  local length, size = ring[1], ring[2]
  local at = HEAD + STEP * (base + number % size)
  local step = call('GETRANGE', HISTORY, at, at + STEP - 1)
  local a, b, c, most = 0, 0, 0, 0
  if #step == STEP and struct.unpack('<I4', step) == number then
    a, b, c, most = select(2, struct.unpack('<I4I4I4I4f', step))
  end
  -- What waited longest at the time of the sample had waited a step less one step before.
  local late = max(0, lag / 1000000 - behind * length)
  call('SETRANGE', HISTORY, at, struct.pack('<I4I4I4I4f', number, min(a + part(1), LARGEST), min(b + part(2), LARGEST),
    min(c + part(3), LARGEST), max(most, late)))
end

call('PEXPIRE', HISTORY, 691200000)
call('SETRANGE', HISTORY, 0, struct.pack('<dddd', time, counters[1], counters[2], counters[3]))
local base = 0
for i = 1, #RINGS do
  local length, size = RINGS[i][1], RINGS[i][2]
  local now = floor(time / 1000000 / length)
  local steps = before > 0 and now - floor(before / 1000000 / length) or 0
  local is_known = before > 0 and (steps <= 1 or time - before <= FEW * 1000000)
  local count = is_known and max(1, steps) or 1
  for behind = count - 1, 0, -1 do
    -- Whole numbers whose sum is what came.
    local function part(k)
      if not is_known then return 0 end
      return floor(came[k] * (count - behind) / count) - floor(came[k] * (count - behind - 1) / count)
    end
    write(RINGS[i], base, now - behind, part, behind)
  end
  base = base + size
end
call('PEXPIRE', HISTORY, 691200000)
return 1
