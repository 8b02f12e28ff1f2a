-- One of the processes that push: the lines on its standard input, at once or spread over so many seconds.

local StatusWorker = require "status_worker"
local journal = require "journal"
local json = require("seriatim.client.codec").json
local log = require "seriatim.log"
local native = require "seriatim.native"

log.level = log.WARN -- the screen is the report's

local BULK = 100
local WITHOUT_SCORES = os.getenv("DEMO_WITHOUT_SCORES") == "1" -- to see the checker find it

local function push(lines)
  local jobs, numbers = {}, {}
  for place, line in ipairs(lines) do
    jobs[place] = { id = line.package, payload = line, score = not WITHOUT_SCORES and line.number or nil }
    numbers[place] = line.number
  end
  local result = assert(StatusWorker:perform_async(jobs))
  journal.write("pushed", { numbers = numbers, folded = result.folded })
end

local function push_at_once(lines)
  for first = 1, #lines, BULK do
    push { table.unpack(lines, first, math.min(first + BULK - 1, #lines)) }
  end
end

---One push a line.
local function push_one_by_one(lines, seconds)
  for _, line in ipairs(lines) do
    push { line }
    native.sleep(seconds / #lines)
  end
end

local lines = {}
for text in io.lines() do
  lines[#lines + 1] = json.load(text)
end
if arg[1] then
  push_one_by_one(lines, tonumber(arg[1]))
else
  push_at_once(lines)
end
