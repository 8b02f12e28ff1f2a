-- A user's own worker under the crash kit: requiring this journals every run. See README.md. Does nothing where JOURNAL is not
-- set.

local batches = require "seriatim.batch"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local path = os.getenv("JOURNAL")
if not path then
  return
end

local journal = assert(io.open(path, "ab"))
journal:setvbuf("full", 65536) -- one write a line

local function write(...)
  journal:write("\n", table.concat({ ... }, " "), " .")
  journal:flush()
end

local function now()
  return ("%.3f"):format(native.now_ms() / 1000)
end

local die_at, die_in = (os.getenv("DIE") or ""):match("^([%w_]+):(%d+)$")
local runs = 0 -- of this thread

---DIE=perform_end:3 ends the process after a thread's third run. There is no other thread for the middle of one: it is its begin.
local function step(point)
  if point == die_at and runs == tonumber(die_in) then
    native.kill(native.getpid(), "KILL")
    native.sleep(60)
  end
end

---The numbers of an id's payloads are their scores.
local function begin_all(queue, batch)
  for _, id in ipairs(batch.ids) do
    local numbers = {}
    for place, score in ipairs(batch:scores(id)) do
      numbers[place] = ("%d"):format(score)
    end
    write("start", native.getpid(), queue, id, batch:fence(id), batch:retry_count(id), table.concat(numbers, ","), now())
  end
end

local function end_all(queue, batch, done)
  for _, id in ipairs(batch.ids) do
    local outcome = batches.outcome(batch, id)
    local ended = done
    if outcome ~= nil then
      ended = outcome == batches.DONE
    end
    write(ended and "end" or "fail", native.getpid(), queue, id, batch:fence(id), now())
  end
end

seriatim.lease_time = tonumber(os.getenv("CRASH_LEASE") or "0.5")
table.insert(seriatim.server_middlewares, 1, function(worker, batch, next)
  runs = runs + 1
  begin_all(worker.queue_name, batch)
  step("perform_begin")
  step("perform_during")
  local results = table.pack(pcall(next))
  end_all(worker.queue_name, batch, results[1])
  step("perform_end")
  if not results[1] then
    error(results[2], 0)
  end
  return table.unpack(results, 2, results.n)
end)
