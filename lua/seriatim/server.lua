-- A node inside this process: takes its share of the shards and runs their jobs on OS threads, each with a Lua state of its
-- own that loads the application again. The state that makes the server must call `tick` several times within
-- lease_time, or `keep`, which does: ticks renew the heartbeat.
--
--   local server = require("seriatim.server").new { application = "./app" }
--   server:start(); server:keep(60); server:stop()
--
-- The command `seriatim-lua` is one with signals around it.
local Connection = require "seriatim.client.connection"
local pool = require "seriatim.client.pool"
local redis_url = require "seriatim.client.redis_url"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local events = require "seriatim.events"
local log = require "seriatim.log"
local native = require "seriatim.native"
local health = require "seriatim.server.health"
local host = require "seriatim.server.host"
local node = require "seriatim.server.node"
local splitters = require "seriatim.server.splitters"
local workers = require "seriatim.server.workers"
local settings = require "seriatim.settings"

local unpack = table.unpack or unpack

---The result. Redis has answered: an IO means that there is no thread or descriptor.
local function must_have(first, kind, message)
  return errors.must(first, kind == "IO" and "SYSTEM" or kind, message)
end

---@class seriatim.Server
---@field id string the node's id, unique for ever
---@field stop_requested boolean an operator asked for it: the code that calls tick should stop the server
---@field failure any what ended a thread, if something did: the process should end
local Server = {}
Server.__index = Server

local servers = {}

---application: what `-r` names, loaded in this state before. queues: only the workers of these. threads:
---seriatim.threads_per_node. environment: what os.getenv says of its name in the threads. Raises a usage error: no worker,
---one without perform, two of one queue, an unknown queue.
---@param options table
---@return seriatim.Server
function servers.new(options)
  local self = setmetatable({ application = options.application, environment = options.environment }, Server)
  self.is_restricted = options.queues ~= nil
  self.threads_count = options.threads and validate.integer("threads", options.threads, 1, 10000) or settings.threads_per_node
  self.chosen = workers.chosen(nil, options.queues)
  self.id, self.pid = node.new_id(), native.getpid()
  self.threads, self.next_pulse, self.stop_requested = {}, 0, false
  return self
end

---Raises an error of seriatim before the start.
function Server:started_runner()
  return self.runner or error(errors.new("CLOSED", "the server has not started"), 0)
end

---Figures of the node: commands, processed, failed, refused, shards, running, claimed, connected.
function Server:stats()
  return self:started_runner():stats()
end

-- ---- start

---Calls on_server_init, looks up the queues, then claims and runs; each thread calls on_thread_init in its own state. Raises what a
---hook raises, misuse or a usage error when a middleware, scheduler or splitter is none (nothing has been started then), and an error
---of seriatim when Redis does not answer, or there is no thread or descriptor.
---before: called before the first claim (for the command, whose signals mean something else from then on).
---@param before fun()?
---@return seriatim.Server
function Server:start(before)
  if self.pid ~= native.getpid() then
    error(errors.new("CLOSED", "the server belongs to the process that created it; create another one after fork"), 0)
  end
  if self.runner then
    error(errors.new("CLOSED", "a server starts once"), 0)
  end
  pool.refuse_in_tests "a server"
  for _, hook in ipairs(settings.on_server_init.functions) do
    hook()
  end
  self.workers = workers.with_added(self.chosen, self.is_restricted) -- on_server_init may have given handlers of events
  local splitter, scheduler = node.check_hooks()
  self.private = redis_url.is_none()
  self.url = errors.must(redis_url.resolve())
  local shards = self:look_up_shards()
  self.shards_count = #shards
  health.check(self.url)
  self.before_claims = before
  self:start_runner(splitters.groups(splitter, shards, self.threads_count), node.scheduler_number(scheduler))
  local text = "node %s with %d threads runs %s on %s"
  log.info("start", text:format(self.id, #self.threads, node.queue_names(self.workers), self.redacted_url))
  return self
end

function Server:look_up_shards()
  local connection = errors.must(Connection.open(self.url, settings.namespace, nil, redis_url.named_by()))
  self.redacted_url = connection:url()
  local looked, shards = pcall(node.shards, self.workers, function(question)
    return question(connection)
  end)
  connection:close()
  return looked and shards or error(shards, 0)
end

---The threads' states have the chosen workers, too. Of the others they learn from the runner, to which served_by tells them.
function Server:start_runner(groups, scheduler)
  self.runner = self:native_runner(groups and #groups or self.threads_count, scheduler)
  local by_number = node.add_workers(self.runner, self.chosen)
  self.queues = {}
  for number, worker in pairs(by_number) do
    self.queues[number] = worker.queue_name
  end
  events.served_by({ runner = self.runner, workers = by_number, is_restricted = self.is_restricted, has_states = true }, true)
  local thread_groups = node.add_groups(self.runner, groups, by_number, scheduler, self.threads_count)
  if self.before_claims then
    self.before_claims()
  end
  self:start_threads(thread_groups)
end

function Server:start_threads(groups)
  local started, raised = pcall(must_have, self.runner:start())
  if not started then -- a stop would wait for it
    self:close()
    self.runner, self.closed = nil, nil
    error(raised, 0)
  end
  for place, group in ipairs(groups) do
    local made, thread = pcall(self.start_thread, self, place, group)
    if not made then
      self:stop(0)
      error(thread, 0)
    end
    self.threads[place] = thread
  end
end

function Server:native_runner(threads, scheduler)
  local jit = rawget(_G, "jit") -- an application may forbid unknown globals
  local made = node.settings(self.id, jit and jit.version:lower() or _VERSION:lower(), threads, scheduler)
  made.url = self.url
  return errors.must(errors.guard(native.runner, made))
end

function Server:start_thread(place, group)
  local name = ("host-%d"):format(place)
  local arguments, count = host.arguments(self.runner:handle(), {
    name = name,
    application = self.application,
    environment = self.environment,
    redis = self.private and self.url,
    is_restricted = self.is_restricted,
    group = group,
    shards_count = self.shards_count,
    threads = self.threads_count,
    log_level = log.level,
    log_format = log.format,
  }, self.queues)
  local chunk_name = "=seriatim-" .. name
  return must_have(native.thread(host.CHUNK, chunk_name, package.path, package.cpath, unpack(arguments, 1, count)))
end

-- ---- the heartbeat, in the state that made the server

---How often `tick` must be called, in seconds.
---@return number
function Server:interval()
  return math.min(settings.lease_time / 5, 1)
end

---Says that this process answers, does what the dashboard asks, writes the runner's events to the log, and looks after the threads.
function Server:tick()
  if self.runner and native.now_ms() >= self.next_pulse then
    self.runner:pulse()
    self.next_pulse = native.now_ms() + self:interval() * 500
  end
  node.apply_command(self, self.runner:asked())
  node.log_events(self.runner)
  for place, thread in ipairs(self.threads) do
    self:look_after(place, thread)
  end
end

---A thread's state outlives every error of a job, so what ended it is the application's loading, or a hook.
function Server:look_after(place, thread)
  if thread:alive() or self.failure then
    return
  end
  local _, err = thread:join(0)
  if err then
    self.failure = ("thread host-%d: %s"):format(place, log.describe(err))
  end
end

---Ticks for `seconds`, or until something fails or an operator asks for a stop. wait: a function (seconds) that sleeps.
function Server:keep(seconds, wait)
  self:await(seconds, function()
    return self.failure ~= nil or self.stop_requested
  end, wait)
end

---Name and traceback of every thread. Those inside other C code do not answer; this waits half a second for all of them.
---@return {[1]: string, [2]: string}[]
function Server:tracebacks()
  local found, deadline = {}, native.now_ms() + 500
  for place, thread in ipairs(self.threads) do
    local patience = math.max(math.min(deadline - native.now_ms(), 100), 1) / 1000
    found[place] = { ("host-%d"):format(place), thread:alive() and thread:traceback(patience) or "ended" }
  end
  return found
end

-- ---- end

---Claims no more jobs; running jobs go on. An operator may ask for it, too (seriatim.quiet_node).
function Server:quiet()
  self:started_runner():quiet()
  log.info("quiet", "no more jobs are claimed")
end

---Claims no more, waits up to `timeout` seconds (seriatim.stop_timeout) for running jobs, hands the rest back, releases all shards
---and leaves. wait: a function (seconds) that sleeps, and may do other things meanwhile.
---@param timeout number?
---@param wait fun(seconds: number)?
---@return boolean everything finished in time
function Server:stop(timeout, wait)
  timeout = timeout == nil and settings.stop_timeout or validate.seconds("timeout", timeout, 0, 86400)
  if not self.runner or self.closed then
    return true
  end
  self.runner:stop()
  local clean = self:await(timeout, function()
    return self.runner:stopped() and not self:has_threads()
  end, wait)
  local unfinished = self.runner:unfinished()
  if not clean then
    self.runner:abandon()
    self:await(3, function() -- which it is after 2 s, whether Redis answers or not
      return self.runner:stopped()
    end, wait)
  end
  self:close()
  log.info("stop", clean and "stopped" or ("stopped; what still ran after %g s: %s"):format(timeout, unfinished))
  return clean
end

function Server:has_threads()
  for _, thread in ipairs(self.threads) do
    if thread:alive() then
      return true
    end
  end
  return false
end

---Ticks until the condition holds: true; false when it does not hold within `seconds`.
function Server:await(seconds, condition, wait)
  local deadline = native.now_ms() + seconds * 1000
  while not condition() do
    if native.now_ms() >= deadline then
      return false
    end
    self:tick();
    (wait or native.sleep)(0.005)
  end
  return true
end

function Server:close()
  node.log_events(self.runner)
  self.closed = true
  events.served_by_none()
  self.runner:close()
end

return servers
