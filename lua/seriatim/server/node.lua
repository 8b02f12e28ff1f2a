-- What every node is made of, whoever drives it: its id, its settings, its shards, their workers and groups, its events.

local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local schedulers = require "seriatim.server.schedulers"
local splitters = require "seriatim.server.splitters"
local settings = require "seriatim.settings"

local BOOT_SECONDS = 10 -- how long a start waits for Redis

local node = {}

---Unique for ever.
---@return string
function node.new_id()
  local name = native.hostname():gsub("[^%w_.-]", "-"):sub(1, 24)
  return ("%s-%d-%s"):format(name, native.getpid(), native.random_hex(8))
end

---For native.runner and native.node. platform: what the code runs in.
---@return table
function node.settings(id, platform, threads, scheduler)
  return {
    namespace = settings.namespace,
    name = "seriatim-server",
    id = id,
    description = ("%s pid %d %s seriatim %s"):format(native.hostname(), native.getpid(), platform, native.version),
    lease_ms = math.floor(settings.lease_time * 1000),
    poll_ms = math.floor(settings.poll_interval * 1000),
    threads = threads,
    scheduler = scheduler,
  }
end

---The core's number; of a scheduler of the application's own the core knows nothing.
---@param scheduler seriatim.Scheduler
---@return integer
function node.scheduler_number(scheduler)
  return type(scheduler) == "number" and scheduler or schedulers.build_lag_scheduler()
end

---@param list seriatim.Worker[]
---@return string
function node.queue_names(list)
  local names = {}
  for place, worker in ipairs(list) do
    names[place] = log.utf8(worker.queue_name)
  end
  return table.concat(names, ", ")
end

-- ---- shards

local function shards_count(worker, ask)
  return errors.must(ask(function(connection)
    return connection:call("layout", connection:number(worker:queue_settings()), BOOT_SECONDS)
  end))
end

---The shards as Redis has them, which it does even for the first start of a queue. Raises a seriatim.Error.
---@param list seriatim.Worker[]
---@param ask fun(question: fun(connection: seriatim.Connection): ...): ...  pool.ask, or what does as it does
---@return seriatim.Shard[]
function node.shards(list, ask)
  local shards = {}
  for _, worker in ipairs(list) do
    for index = 0, shards_count(worker, ask) - 1 do
      shards[#shards + 1] = { worker = worker, index = index }
    end
  end
  return shards
end

---What was inserted into the lists since they were set. Raises misuse.
function node.check_middlewares()
  validate.callables("server_middlewares", settings.server_middlewares)
  validate.callables("client_middlewares", settings.client_middlewares)
end

---Whatever can be refused before Redis is asked; on_server_init may have changed it. Raises USAGE, or misuse.
---@return seriatim.Splitter
---@return seriatim.Scheduler
function node.check_hooks()
  node.check_middlewares()
  return splitters.build(), schedulers.build()
end

-- ---- what a runner or a native node is told; `made` is one

---@param list seriatim.Worker[]
---@return table<integer, seriatim.Worker> workers  by their numbers
function node.add_workers(made, list)
  local by_number = {}
  for _, worker in ipairs(list) do
    by_number[made:worker(worker:queue_settings())] = worker
  end
  return by_number
end

---The number of each thread's group.
---@param groups seriatim.Shard[][]?  of splitters.groups
---@param workers table<integer, seriatim.Worker>  by their numbers
---@param threads integer  where there are no groups
---@return integer[]
function node.add_groups(made, groups, workers, scheduler, threads)
  local numbers, given = {}, {}
  for number, worker in pairs(workers) do
    numbers[worker] = number
  end
  for place = 1, groups and #groups or threads do
    local pairs_ = {}
    for at, shard in ipairs(groups and groups[place] or {}) do
      pairs_[at] = { numbers[shard.worker], shard.index }
    end
    given[place] = groups and made:group(scheduler, pairs_) or 0
  end
  return given
end

local BAD = { lost = true, refused = true, recovered = true, warning = true, failures = true }
local NAMES = { recovered = "recover", failures = "fail" }

---Writes what happened since to the log.
function node.log_events(made)
  local kind, number, text = made:event()
  while kind do
    local bad = BAD[kind] or kind == "link" and number <= 0
    log.write(bad and log.WARN or log.INFO, NAMES[kind] or kind, text, { n = number > 0 and kind ~= "link" and number or nil })
    kind, number, text = made:event()
  end
end

---Does what an operator asked of this node: quiet at once, as the signal TSTP does. A stop is left to the caller that drives
---the node, which finds it in stop_requested.
---@param driver { stop_requested: boolean?, quiet: fun(self) }
---@param command "quiet"|"stop"|nil  nil: nothing was asked
function node.apply_command(driver, command)
  if not command or driver.stop_requested then
    return
  end
  log.info(command, "requested from the dashboard")
  if command == "quiet" then
    driver:quiet()
  end
  driver.stop_requested = command == "stop"
end

return node
