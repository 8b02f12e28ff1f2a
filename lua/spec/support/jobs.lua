-- Workers, nodes and waits of the tests. A node here runs its jobs in this very Lua state, one after another, while a test
-- waits: the core's runner and the library's execution, without threads.

local execution = require "seriatim.server.execution"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local jobs = {}

local recorded = setmetatable({}, { __mode = "k" }) -- runs by worker
local nodes = {}

---What a worker was given, with the times around it (Unix seconds).
---@class spec.Run
---@field payloads table<string, any[]>
---@field ids string[]
---@field retry_counts table<string, integer>
---@field started number
---@field ended number

local function begin(payloads_by_id, batch)
  local run = { payloads = payloads_by_id, ids = batch.ids, retry_counts = {}, started = native.time() }
  for id in pairs(payloads_by_id) do
    run.retry_counts[id] = batch:retry_count(id)
  end
  return run
end

---A worker that records its runs, around the perform that a test gave.
---@param name string?
---@param perform nil|fun(payloads_by_id: table, batch: table)
---@param options seriatim.WorkerOptions?
function jobs.worker(name, perform, options)
  local runs = {}
  local given = { name = name or "Recorder", retry_in = function() return 0.05 end }
  for key, value in pairs(options or {}) do
    given[key] = value
  end
  function given.perform(payloads_by_id, batch)
    local run = begin(payloads_by_id, batch)
    local outcome = { pcall(perform or function() end, payloads_by_id, batch) }
    run.ended = native.time()
    table.insert(runs, run)
    if not outcome[1] then
      error(outcome[2], 0)
    end
    return outcome[2], outcome[3]
  end
  local made = seriatim.worker(given)
  recorded[made] = runs
  return made
end

---A node that runs these workers, until the end of the test. holds: the id whose first run does not end before that.
function jobs.serve(...)
  local node = { workers = {}, id = "spec-" .. native.random_hex(8) }
  node.runner = assert(native.runner {
    url = seriatim.redis,
    namespace = seriatim.namespace,
    name = "seriatim-server",
    id = node.id,
    description = "lua spec",
    lease_ms = 10000,
    poll_ms = 200,
    threads = 3,
    scheduler = 0,
  })
  for _, worker in ipairs { ... } do
    node.workers[node.runner:worker(worker:queue_settings())] = worker
  end
  node.runner:start()
  table.insert(nodes, node)
  return node
end

---Runs what is due now or becomes due within `seconds`.
function jobs.step(seconds)
  for _, node in ipairs(nodes) do
    node.runner:pulse()
    local delivery = node.runner:take(0, seconds or 0)
    if delivery and node.holds and delivery:job(1) == node.holds then
      node.held = delivery
    elseif delivery then
      execution.run(node.workers, delivery)
    end
    while node.runner:event() do end
  end
end

---Lets the nodes finish and leave.
function jobs.stop_servers()
  while #nodes > 0 do
    local node = table.remove(nodes)
    if node.held then
      node.held:settle()
    end
    node.runner:stop()
    local deadline = native.now_ms() + 60000
    while node.runner:stopped() == false and native.now_ms() < deadline do -- nil: a test has closed it
      node.runner:pulse()
      local delivery = node.runner:take(0, 0.01)
      if delivery then
        execution.run(node.workers, delivery)
      end
    end
    node.runner:close()
  end
end

---Lets the nodes run until the function gives something true, which it returns.
function jobs.eventually(condition, seconds)
  local deadline = native.now_ms() + (seconds or 60) * 1000
  local value = condition()
  while not value do
    assert(native.now_ms() < deadline, ("not within %d s"):format(seconds or 60))
    jobs.step(0.005)
    if #nodes == 0 then
      native.sleep(0.01)
    end
    value = condition()
  end
  return value
end

---The next `count` runs.
---@return spec.Run[]
function jobs.runs(worker, count, seconds)
  local runs, taken = recorded[worker], {}
  jobs.eventually(function() return #runs >= (count or 1) end, seconds)
  for place = 1, count or 1 do
    taken[place] = table.remove(runs, 1)
  end
  return taken
end

---All that were not asked for yet.
function jobs.recorded(worker)
  return recorded[worker]
end

---Until nothing waits and nothing runs.
function jobs.drained(worker, seconds)
  jobs.eventually(function()
    local figures = assert(worker:metrics())
    return figures.length + figures.busy == 0
  end, seconds)
end

---Has the table these values?
function jobs.includes(figures, expected)
  for name, value in pairs(expected) do
    if figures[name] ~= value then
      return false
    end
  end
  return true
end

function jobs.ids(records)
  local ids = {}
  for place, record in ipairs(records) do
    ids[place] = record.id
  end
  return ids
end

function jobs.keys(map)
  local keys = {}
  for key in pairs(map) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

function jobs.now()
  return native.time()
end

return jobs
