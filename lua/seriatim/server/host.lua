-- The main function of a thread that runs jobs, in a Lua state of its own: loads the application again, takes deliveries of its
-- group and runs them, until the server stops.
local validate = require "seriatim.client.validate"
local events = require "seriatim.events"
local log = require "seriatim.log"
local native = require "seriatim.native"
local execution = require "seriatim.server.execution"
local settings = require "seriatim.settings"

local host = {}

---What native.thread runs.
host.CHUNK = [[
local path, cpath = ...
package.path, package.cpath = path, cpath
require("seriatim.server.host").main(select(3, ...))
]]

-- ---- where deliveries come from

local Source = {}
Source.__index = Source

---The deliveries of a group, in the order of its scheduler.
---@param runner seriatim.Runner
---@param group integer
---@param scheduler seriatim.Scheduler
---@param workers table<integer, seriatim.Worker> by their numbers in the runner
---@param shards_count integer of all of them, at the start
function host.source(runner, group, scheduler, workers, shards_count)
  local self = { runner = runner, group = group, workers = workers, most = shards_count }
  self.complaints = {} -- kinds of errors that complain has logged
  self.scheduler = type(scheduler) ~= "number" and scheduler or nil
  return setmetatable(self, Source)
end

---The next one; nil: none now; false: there will be no more. reusable: of execution.work.
function Source:take(reusable)
  if not self.scheduler then
    return self.runner:take(self.group, nil, reusable)
  end
  if reusable then
    reusable:settle()
  end
  local worker, shard = self:pick()
  if worker then
    return self.runner:take_from(self.group, worker, shard) or nil
  end
  local delivery = self.runner:take_unscheduled(self.group, worker == nil and settings.poll_interval or 0)
  if delivery == nil and worker == false then
    native.sleep(0.01)
  end
  return delivery
end

---A worker's number and a shard, as the application's scheduler chose. nil: there is nothing to choose from. false: it will not
---choose. In both cases the core may still have what no scheduler chooses: dead jobs to tell of, ids in doubt, the end. What becomes
---ready while Source:take waits for that is for the scheduler, which the next call asks.
---@return integer|false|nil worker
---@return integer? shard
function Source:pick()
  local rows = self:rows()
  if not rows or #rows == 0 then
    return nil
  end
  local place = self:choose(self:candidates(rows))
  if not place then
    return false
  end
  return rows[place][1], rows[place][2]
end

---Of all candidates: a queue may have more shards by now than when the server started.
function Source:rows()
  local rows = self.runner:candidates(self.group, self.most)
  while rows and #rows >= self.most do
    self.most = 2 * self.most
    rows = self.runner:candidates(self.group, self.most)
  end
  return rows
end

function Source:candidates(rows)
  local candidates = {}
  for place, row in ipairs(rows) do
    candidates[place] = { worker = self.workers[row[1]], index = row[2], lag = row[3], size = row[4] }
  end
  return candidates
end

---Is it the candidate itself, or a copy of it? Whatever metatable the scheduler's value has, this raises nothing.
local function is_same_shard(known, candidate)
  return rawequal(known, candidate)
    or type(candidate) == "table"
      and rawequal(known.worker, rawget(candidate, "worker"))
      and rawequal(known.index, rawget(candidate, "index"))
end

---The place of the scheduler's choice in candidates; nil: it will not choose. The scheduler gets a list of its own, so sorting
---or emptying it does not change which row a place stands for.
function Source:choose(candidates)
  local own = {}
  for place, candidate in ipairs(candidates) do
    own[place] = candidate
  end
  local chose, candidate = pcall(self.scheduler, own)
  if not chose then
    return self:complain("raised", ("the scheduler raised %s"):format(log.describe(candidate)))
  elseif candidate == nil then
    return nil
  end
  for place, known in ipairs(candidates) do
    if is_same_shard(known, candidate) then
      return place
    end
  end
  return self:complain("choice", ("the scheduler chose %s, which is not one of its candidates"):format(validate.describe(candidate)))
end

---The place of the oldest candidate. Each kind of error is logged once: a scheduler is called for every delivery.
function Source:complain(kind, text)
  if not self.complaints[kind] then
    self.complaints[kind] = true
    log.error("hook", text .. "; the oldest goes first (further errors of this kind are not logged)")
  end
  return 1
end

-- ---- the thread

---Takes deliveries and runs them, until there will be no more. Where the application's own scheduler chooses, each is taken by
---itself; else the end of one takes the next.
local function serve(source)
  local chosen_here = not source.scheduler and source or nil
  local delivery = source:take()
  while delivery ~= false do
    local reusable, next_delivery = nil, nil
    if delivery then
      reusable, next_delivery = execution.work(source.workers, delivery, chosen_here)
    end
    if next_delivery == nil then
      next_delivery = source:take(reusable)
    end
    delivery = next_delivery
  end
end

---After what raised outside of every job: a finalizer in LuaJIT, a hook that a job left behind, want of memory. The collector
---settles a delivery that nobody holds any more.
local function recover(raised)
  debug.sethook()
  log.error("crash", log.describe(raised))
  collectgarbage()
  native.sleep(0.1)
end

---Until the runner says that there will be no more.
function host.run(source)
  local ran, raised = pcall(serve, source)
  while not ran do
    pcall(recover, raised)
    ran, raised = pcall(serve, source)
  end
end

---A job must not end the process with its neighbours in it.
local function forbid_exit()
  os.exit = function()
    error("os.exit() in a server's thread", 2)
  end
end

local function prepare(options)
  local application = require "seriatim.server.application"
  log.thread, log.level, log.format = options.name, options.log_level, options.log_format
  log.output = log.to(io.stdout)
  if options.environment then
    application.set_environment(options.environment)
  end
  forbid_exit()
  application.load(options.application)
end

---The workers by their numbers, of the application as this state loaded it.
local function find_workers(queues, runner, is_restricted)
  local by_queue, workers = {}, {}
  for _, worker in ipairs(require("seriatim.server.workers").chosen()) do
    by_queue[worker.queue_name] = worker
  end
  for number, queue in pairs(queues) do
    workers[number] = by_queue[queue]
    if not workers[number] then
      error(("the application, loaded again for a thread, has no worker of queue %s"):format(queue), 0)
    end
  end
  events.served_by({ runner = runner, workers = workers, is_restricted = is_restricted, has_states = true }, false)
  return workers
end

local function boot(handle, options, queues)
  prepare(options)
  settings.threads_per_node = options.threads
  if options.redis then
    settings.redis = options.redis
  end
  for _, hook in ipairs(settings.on_thread_init.functions) do
    hook()
  end
  local runner = native.runner_of(handle)
  local scheduler = require("seriatim.server.schedulers").build()
  local workers = find_workers(queues, runner, options.is_restricted)
  return host.source(runner, options.group, scheduler, workers, options.shards_count)
end

local OPTIONS = {
  "name", "application", "environment", "redis", "is_restricted", "group", "shards_count", "threads", "log_level", "log_format",
}

---The arguments of native.thread behind path and cpath: a thread takes no tables. queues: by their workers' numbers.
function host.arguments(handle, options, queues)
  local list, count = { handle }, 1
  for _, name in ipairs(OPTIONS) do
    count = count + 1
    list[count] = options[name] or false
  end
  for number, queue in pairs(queues) do
    list[count + 1], list[count + 2] = number, queue
    count = count + 2
  end
  return list, count
end

---In the thread's state. An error of it ends the server: the application does not load here, or a hook raised.
function host.main(handle, ...)
  local given, options, queues = { ... }, {}, {}
  for place, name in ipairs(OPTIONS) do
    options[name] = given[place] or nil
  end
  for place = #OPTIONS + 1, select("#", ...), 2 do
    queues[given[place]] = given[place + 1]
  end
  host.run(boot(handle, options, queues))
end

return host
