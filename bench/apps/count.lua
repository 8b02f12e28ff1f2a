-- What every job calls: measures from the first job begun to the last one, or notes when each was performed; and the schedule of a
-- pusher.
--
-- The threads of a server have Lua states
-- of their own, so they count in a file that all append to, in blocks. Each keeps the block that it has begun, so the time of all jobs
-- is told when all but those are counted.

local native = require "seriatim.native"

local BLOCK = 100
local THREADS = tonumber(os.getenv("BENCH_THREADS") or 5)
local GRACE = 0.5 -- seconds that a pusher may be late at the end

local count = { JOBS = tonumber(os.getenv("BENCH_JOBS") or 0), now = native.time }

local path = os.getenv("BENCH_RESULT")
local marks = path and ("%s.%d"):format(path, native.getpid()) -- a byte a job
local block = count.JOBS >= 100 * BLOCK and BLOCK or 1
local enough = count.JOBS - THREADS * (block - 1)
local file, notes, waiting, reported = nil, nil, 0, false

local function append(name, text)
  local opened = assert(io.open(name, "ab"))
  opened:write(text)
  opened:close()
end

---Numbers, one a line.
local function read(name)
  local numbers = {}
  for line in io.lines(name) do
    numbers[#numbers + 1] = tonumber(line)
  end
  return numbers
end

local function begin()
  append(marks .. ".begin", ("%.6f\n"):format(count.now()))
  file = assert(io.open(marks, "ab"))
  file:setvbuf("no")
end

---Counts one job of this process.
function count.up()
  if not file then
    begin()
  end
  waiting = waiting + 1
  if waiting < block then
    return
  end
  file:write(("x"):rep(waiting))
  waiting = 0
  local counted = file:seek("end")
  if counted >= enough and not reported then
    reported = true
    local seconds = count.now() - math.min((table.unpack or unpack)(read(marks .. ".begin")))
    count.report(("%.6f"):format(seconds * count.JOBS / counted))
  end
end

---Notes that a job which counts from `pushed` is performed now, in a file that all threads append to.
function count.note(pushed)
  local performed = count.now()
  if not notes then
    notes = assert(io.open(path .. ".notes", "ab"))
    notes:setvbuf("no")
  end
  notes:write(("%.6f %.6f\n"):format(performed, pushed))
end

---Calls push(number, pushed) at each time of the schedule; BENCH_PACE and rules are those of count.rb.
function count.pace(push)
  local words = os.getenv("BENCH_PACE"):gmatch "%S+"
  local rate, start, seconds = tonumber(words()), tonumber(words()), tonumber(words())
  local turn, of = tonumber(words()), tonumber(words())
  local awake = start
  for number = turn, math.floor(rate * seconds + 0.5) - 1, of do
    local due = start + number / rate
    local now = count.now()
    if now > start + seconds + GRACE then
      return
    end
    while now < due do
      native.sleep(due - now)
      now = count.now()
      awake = now
    end
    push(number, math.max(due, awake))
  end
end

function count.report(text)
  local written = ("%s.%d.%s"):format(path, native.getpid(), native.random_hex(4))
  append(written, text)
  os.rename(written, path)
end

return count
