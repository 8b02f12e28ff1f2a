-- A process that pushes numbers 1..count to each of its ids, one by one, and notes each push that returned.

local errors = require "seriatim.errors"
local native = require "seriatim.native"
local workload = require "workload"

local settings = workload.settings
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

for number = 1, settings.count do
  for _, id in ipairs(settings.ids) do
    errors.must(worker:perform_async { { id = id, payload = payload(number) } })
    workload.pushed(queue, id, { number })
  end
  native.sleep(settings.pause or 0)
  if is_enough() then
    break
  end
end
