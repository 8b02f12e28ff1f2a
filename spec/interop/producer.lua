-- A process that pushes numbers 1..count to each of its ids, one by one, and notes each push that returned. One that too few
-- replicas have goes again.

local errors = require "seriatim.errors"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local workload = require "workload"

local settings = workload.settings
seriatim.push_timeout = 50 -- outlasts the faults of the crash kit
for name, value in pairs(settings.seriatim or {}) do
  seriatim[name] = value
end
local queue = settings.queue
local worker = workload.worker(queue, settings.workers[queue])

local function is_enough()
  local file = settings["until"] and io.open(settings["until"])
  return file and file:close()
end

local function payload(number)
  local made = { n = number }
  for word, value in pairs(settings.payload or {}) do
    made[word] = value
  end
  return made
end

local function push(id, number)
  local counts, err
  repeat
    counts, err = worker:perform_async { { id = id, payload = payload(number) } }
  until counts or not errors.is(err, "NOT_REPLICATED")
  errors.must(counts, err)
  workload.pushed(queue, id, { number })
end

for number = 1, settings.count do
  for _, id in ipairs(settings.ids) do
    push(id, number)
  end
  native.sleep(settings.pause or 0)
  if is_enough() then
    break
  end
end
