-- library: steps - adds a sample of a queue to its history; history.lua says what lies there.
-- It needs call.
-- Steps between two samples share what came between them, if at most a minute lies there. Else nobody measured: those steps stay
-- unknown, and this one tells of what came since only if the sample before is of it or of the step before it.
local floor, max, min = math.floor, math.max, math.min
local RINGS = {{10, 360}, {300, 288}, {3600, 168}}
local HEAD, STEP, LARGEST, FEW = 32, 20, 4294967294, 60

-- Times in microseconds. Returns 1; 0: a later sample was there already.
local function add_sample(key, time, counters, lag, since)
  local head, before, seen = call('GETRANGE', key, 0, HEAD - 1), 0, {0, 0, 0}
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
    local step = call('GETRANGE', key, at, at + STEP - 1)
    local a, b, c, most = 0, 0, 0, 0
    if #step == STEP and struct.unpack('<I4', step) == number then
      a, b, c, most = select(2, struct.unpack('<I4I4I4I4f', step))
    end
    -- What waited longest at the time of the sample had waited a step less one step before.
    local late = max(0, lag / 1000000 - behind * length)
    call('SETRANGE', key, at, struct.pack('<I4I4I4I4f', number, min(a + part(1), LARGEST), min(b + part(2), LARGEST),
      min(c + part(3), LARGEST), max(most, late)))
  end

  call('PEXPIRE', key, 691200000)
  call('SETRANGE', key, 0, struct.pack('<dddd', time, counters[1], counters[2], counters[3]))
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
  call('PEXPIRE', key, 691200000)
  return 1
end
