-- A node for one nginx worker: made of the workers' queues as Redis has them. What drives it is loop.lua.

local socket = require "resty.seriatim.socket"
local transport = require "resty.seriatim.transport"
local pool = require "seriatim.client.pool"
local redis_url = require "seriatim.client.redis_url"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local events = require "seriatim.events"
local log = require "seriatim.log"
local native = require "seriatim.native"
local health = require "seriatim.server.health"
local node = require "seriatim.server.node"
local splitters = require "seriatim.server.splitters"
local workers = require "seriatim.server.workers"
local settings = require "seriatim.settings"

local nodes = {}

---What seriatim.start is called with.
---@class seriatim.LoopOptions
---@field workers nil|(seriatim.Worker|string)[]|fun(): (seriatim.Worker|string)[]  seriatim.workers
---@field queues string[]?  only the workers of these
---@field threads integer?  seriatim.threads_per_node: how many deliveries run at once in each nginx worker
---@field stop_timeout number?  seriatim.stop_timeout: seconds that what runs may take when the nginx worker ends

local KNOWN = { workers = true, queues = true, threads = true, stop_timeout = true }

---@param options seriatim.LoopOptions?
---@return table checked  workers, is_restricted, threads, stop_timeout
function nodes.options(options)
  options = options or {}
  for name in pairs(options) do
    if not KNOWN[name] then
      local text = "start: unknown option %s; known are workers, queues, threads, stop_timeout"
      errors.misuse(text:format(validate.shown(name)))
    end
  end
  node.check_middlewares()
  local threads, stop_timeout = options.threads, options.stop_timeout
  return {
    workers = workers.chosen(options.workers, options.queues),
    is_restricted = options.queues ~= nil,
    threads = threads and validate.integer("threads", threads, 1, 10000) or settings.threads_per_node,
    stop_timeout = stop_timeout and validate.seconds("stop_timeout", stop_timeout, 0, 86400) or settings.stop_timeout,
  }
end

local function new_native(id, threads, scheduler)
  local version = ngx.config.nginx_version
  local platform = ("nginx %d.%d.%d"):format(version / 1000000, version / 1000 % 1000, version % 1000)
  return errors.must(errors.guard(native.node, node.settings(id, platform, threads, scheduler)))
end

---Looks up the queues and makes the node; yields. Raises a seriatim.Error, and what a setting's function raises.
---changed: called when `on` or `off` of events has changed the node's workers
---@return table made  id, node, url (parsed), workers (by number), groups (a number for each light thread), scheduler,
---shards_count
function nodes.make(options, changed)
  local splitter, own = node.check_hooks()
  local url = errors.must(redis_url.resolve())
  local served = workers.with_added(options.workers, options.is_restricted) -- on_server_init may have given handlers of events
  local shards = node.shards(served, pool.ask)
  if ngx.worker.id() == 0 then
    health.check(url, transport)
  end
  local groups = splitters.groups(splitter, shards, options.threads)
  local id, scheduler = node.new_id(), node.scheduler_number(own)
  local made = new_native(id, groups and #groups or options.threads, scheduler)
  local parsed = errors.must(socket.parse(url))
  if parsed.has_sentinels then
    made:expect_masters()
  end
  for _, seed in ipairs(parsed.hosts or {}) do
    made:seed(seed.host, seed.port)
  end
  local by_number = node.add_workers(made, served)
  events.served_by({ runner = made, workers = by_number, is_restricted = options.is_restricted, changed = changed }, true)
  local thread_groups = node.add_groups(made, groups, by_number, scheduler, options.threads)
  made:start()
  local text = "node %s with %d light threads runs %s on %s"
  log.info("start", text:format(id, #thread_groups, node.queue_names(served), parsed.redacted))
  return { id = id, node = made, url = parsed, workers = by_number, groups = thread_groups, scheduler = own, shards_count = #shards }
end

return nodes
