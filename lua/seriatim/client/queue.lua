-- A worker's queue in Redis.

local metrics = require "seriatim.client.metrics"
local pool = require "seriatim.client.pool"
local push = require "seriatim.client.push"

local queue = {}

---`worker.queue`.
---@class seriatim.Queue
local Queue = {}
Queue.__index = Queue

---@param worker seriatim.Worker
---@return seriatim.Queue
function queue.new(worker)
  return setmetatable({ worker = worker }, Queue)
end

---@return string
function Queue:name()
  return self.worker.queue_name
end

---As Redis has it; 0 when the queue was never used.
---@return integer?
---@return seriatim.Error? err
function Queue:shards_count()
  local settings = {}
  for name, value in pairs(self.worker:queue_settings()) do
    settings[name] = value
  end
  settings.shards_count = 0
  return pool.ask(function(connection) return connection:call("layout", connection:number(settings), nil) end)
end

---As perform_async, past an override of it.
---@param jobs seriatim.Job[]
---@param options seriatim.PushOptions?
---@return seriatim.PushResult?
---@return seriatim.Error? err
function Queue:push(jobs, options)
  return push.push(self.worker, jobs, options)
end

---The records of these ids.
---@param ids seriatim.Id[]
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queue:fetch(ids)
  return self.worker.queries:fetch(ids)
end

---@return seriatim.Metrics?
---@return seriatim.Error? err
function Queue:metrics()
  return metrics.of(self.worker)
end

return queue
