-- A node for one nginx worker: made of the workers' queues as Redis has them. What drives it is loop.lua.

local check = require "seriatim.check"
local errors = require "seriatim.errors"
local health = require "seriatim.health"
local log = require "seriatim.log"
local native = require "seriatim.native"
local pool = require "seriatim.pool"
local redis_url = require "seriatim.redis_url"
local schedulers = require "seriatim.schedulers"
local settings = require "seriatim.settings"
local socket = require "resty.seriatim.socket"
local transport = require "resty.seriatim.transport"
local workers = require "seriatim.workers"

local BOOT_SECONDS = 10 -- how long a start waits for Redis

local nodes = {}

---What seriatim.start is called with.
---@class seriatim.LoopOptions
---@field workers nil|(seriatim.Worker|string)[]|fun(): (seriatim.Worker|string)[]  seriatim.workers
---@field queues string[]?  only the workers of these
---@field threads integer?  seriatim.threads_per_node: how many deliveries run at once in each nginx worker
---@field stop_timeout number?  seriatim.stop_timeout: seconds that what runs may take when the nginx worker ends

local KNOWN = { workers = true, queues = true, threads = true, stop_timeout = true }

---@param options seriatim.LoopOptions?
---@return table checked  workers, threads, stop_timeout
function nodes.options(options)
  options = options or {}
  for name in pairs(options) do
    if not KNOWN[name] then
      local text = "start: unknown option %s; known are workers, queues, threads, stop_timeout"
      errors.misuse(text:format(check.shown(name)))
    end
  end
  local threads, stop_timeout = options.threads, options.stop_timeout
  return {
    workers = workers.chosen(options.workers, options.queues),
    threads = threads and check.integer("threads", threads, 1, 10000) or settings.threads_per_node,
    stop_timeout = stop_timeout and check.seconds("stop_timeout", stop_timeout, 0, 86400) or settings.stop_timeout,
  }
end

---The shards as Redis has them, which it does even for the first start of a queue.
local function shards_of(worker)
  local count = errors.must(pool.ask(function(connection)
    return connection:call("layout", connection:number(worker:queue_settings()), BOOT_SECONDS)
  end))
  if count ~= worker.shards_count then
    local text = ("the code says %d shards, Redis has %d, which counts"):format(worker.shards_count, count)
    log.warn("warning", text, { q = worker.queue_name })
  end
  return count
end

local function look_up_shards(list)
  local shards = {}
  for _, worker in ipairs(list) do
    for index = 0, shards_of(worker) - 1 do
      shards[#shards + 1] = { worker = worker, index = index }
    end
  end
  return shards
end

local function filled_groups(shards)
  local groups = settings.build_splitter()(shards)
  if groups == nil then
    return nil
  end
  local filled = {}
  for _, group in ipairs(groups) do
    filled[#filled + 1] = #group > 0 and group or nil
  end
  if #filled == 0 then
    errors.usage("the splitter gives this node no shard")
  end
  return filled
end

local function new_native(threads, scheduler)
  local name = native.hostname():gsub("[^%w_.-]", "-"):sub(1, 24)
  local id = ("%s-%d-%s"):format(name, native.getpid(), native.random_hex(8))
  local version = ngx.config.nginx_version
  local nginx = ("%d.%d.%d"):format(version / 1000000, version / 1000 % 1000, version % 1000)
  return id, errors.must(errors.guard(native.node, {
    namespace = settings.namespace,
    name = "seriatim-server",
    id = id,
    description = ("%s pid %d nginx %s seriatim %s"):format(native.hostname(), native.getpid(), nginx, native.version),
    lease_ms = math.floor(settings.lease_time * 1000),
    poll_ms = math.floor(settings.poll_interval * 1000),
    threads = threads,
    scheduler = scheduler,
  }))
end

---The number of each light thread's group.
local function seats_of(node, groups, numbers, scheduler, threads)
  local seats = {}
  for place = 1, groups and #groups or threads do
    local pairs_ = {}
    for at, shard in ipairs(groups and groups[place] or {}) do
      pairs_[at] = { numbers[shard.worker], shard.index }
    end
    seats[place] = groups and node:group(scheduler, pairs_) or 0
  end
  return seats
end

local function names_of(list)
  local names = {}
  for place, worker in ipairs(list) do
    names[place] = log.utf8(worker.queue_name)
  end
  return table.concat(names, ", ")
end

---Looks up the queues and makes the node; yields. Raises weather, and what a setting's function raises.
---@return table made  id, node, url (parsed), workers (by number), groups (a number for each light thread), scheduler,
---shards_count
function nodes.make(options)
  local url = errors.must(redis_url.resolve())
  local shards = look_up_shards(options.workers)
  if ngx.worker.id() == 0 then
    health.check(url, transport)
  end
  local groups = filled_groups(shards)
  local own = settings.build_scheduler()
  local scheduler = type(own) == "number" and own or schedulers.build_lag_scheduler()
  local id, node = new_native(groups and #groups or options.threads, scheduler)
  local numbers, by_number = {}, {}
  for _, worker in ipairs(options.workers) do
    local number = node:worker(worker:queue_settings())
    numbers[worker], by_number[number] = number, worker
  end
  local seats = seats_of(node, groups, numbers, scheduler, options.threads)
  node:start()
  local parsed = errors.must(socket.parse(url))
  local text = "node %s with %d light threads runs %s on %s"
  log.info("start", text:format(id, #seats, names_of(options.workers), parsed.redacted))
  return { id = id, node = node, url = parsed, workers = by_number, groups = seats, scheduler = own, shards_count = #shards }
end

return nodes
