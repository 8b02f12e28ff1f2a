-- A server whose jobs run in this very Lua state, so that the runner sees them: seriatim.server with its threads' place taken
-- by coroutines that have turns. They take deliveries and run them as a host thread does (seriatim.host); what a thread has
-- beyond that, a state of its own, is for the tests of the command.

local execution = require "seriatim.server.execution"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local servers = require "seriatim.server"

local PAUSE = 0.002 -- seconds between two rounds of turns

-- ---- what stands for a thread

local Turns = {}
Turns.__index = Turns

local function serve(runner, group, workers)
  local delivery = runner:take(group, 0)
  while delivery ~= false do
    if delivery then
      execution.run(workers, delivery)
    else
      coroutine.yield()
    end
    delivery = runner:take(group, 0)
  end
end

function Turns:alive()
  return coroutine.status(self.coroutine) ~= "dead"
end

function Turns:join()
  return true, self.raised
end

function Turns:take()
  if self:alive() then
    local ran, raised = coroutine.resume(self.coroutine)
    self.raised = not ran and debug.traceback(self.coroutine, tostring(raised)) or nil
  end
end

-- ---- the server

---@class spec.Host  start(workers, threads) gives a spec.Server; sleep(seconds) lets servers of this state go on
local turns = {}

---@class spec.Server
local Server = {}
Server.__index = Server

---Starts one.
---@param workers seriatim.Worker[]
---@param threads integer
---@return spec.Server
function turns.start(workers, threads)
  seriatim.workers = workers
  local server, by_number = servers.new { threads = threads }, nil
  function server.start_thread(self, _, group)
    by_number = by_number or self:workers_by_number()
    local made = coroutine.create(function() serve(self.runner, group, by_number) end)
    return setmetatable({ coroutine = made }, Turns)
  end
  function server.workers_by_number(self)
    local by_queue, found = {}, {}
    for _, worker in ipairs(self.workers) do
      by_queue[worker.queue_name] = worker
    end
    for number, queue in pairs(self.queues) do
      found[number] = by_queue[queue]
    end
    return found
  end
  return setmetatable({ server = server:start() }, Server)
end

local function is_main()
  local running, main = coroutine.running()
  return running == nil or main == true
end

---Sleeps for at least `seconds`, although the clock counts whole milliseconds.
---@param seconds number
function turns.sleep(seconds)
  if is_main() then
    return native.sleep(seconds)
  end
  local deadline = native.now_ms() + seconds * 1000 + 1
  repeat
    coroutine.yield()
  until native.now_ms() >= deadline
end

function Server:round(seconds)
  for _, each in ipairs(self.server.threads) do
    each:take()
  end
  native.sleep(math.min(seconds, PAUSE))
end

---Lets it run until the condition holds, for `seconds` at most.
---@return boolean  it holds
function Server:await(seconds, condition)
  local held = self.server:await(seconds, condition, function(pause) self:round(pause) end)
  if self.server.failure then
    error(self.server.failure, 0)
  end
  return held
end

---@return boolean  what ran has ended in time
function Server:stop(seconds)
  return self.server:stop(seconds, function(pause) self:round(pause) end)
end

return turns
