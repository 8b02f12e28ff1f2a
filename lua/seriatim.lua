-- Background jobs in order, per id, folded, on Redis.
--
--     local seriatim = require "seriatim"
--
--     local OrderWorker = seriatim.worker {
--       name = "OrderWorker",
--       perform = function(payloads_by_id)
--         for id, payloads in pairs(payloads_by_id) do ... end
--       end,
--     }
--
--     local counts, err = OrderWorker:perform_async { { id = 1, payload = { status = "paid" } } }
--
-- Invalid arguments raise a text that names the field and the rule, at the caller's line; failures at run time return nil and a
-- seriatim.Error.

local errors = require "seriatim.errors"
local version = require "seriatim.version"

local found, native = pcall(require, "seriatim.native")
if not found then
  -- Where no searcher found it, Lua lists the places; else the file is there and cannot be loaded, and the message says why.
  error(not tostring(native):find("not found:", 1, true) and native or native
    .. "\nthe C module of seriatim is not compiled for this Lua: run script/build_lua in the checkout and set LUA_CPATH to its"
    .. " lua/lib/5.4/?.so (LuaJIT and 5.1: lua/lib/5.1/?.so), or install the rock: luarocks --lua-version=5.4 make", 0)
end

if native.version ~= version then
  error(("seriatim %s was loaded with the C module of %s; compile it again"):format(version, tostring(native.version)))
end

require "seriatim.client.int64"

local ick = require "seriatim.client.ick"
local metrics = require "seriatim.client.metrics"
local node_commands = require "seriatim.client.node_commands"
local pipelines = require "seriatim.client.pipeline"
local pops = require "seriatim.client.pop"
local push = require "seriatim.client.push"
local redis_url = require "seriatim.client.redis_url"
local validate = require "seriatim.client.validate"
local events = require "seriatim.events"
local schedulers = require "seriatim.server.schedulers"
local splitters = require "seriatim.server.splitters"
local settings = require "seriatim.settings"
local worker = require "seriatim.worker"

---The module. Its settings are fields, checked when they are set:
---@class seriatim
---what the command runs: workers, their names ("module:OrderWorker", or "module" that returns one; found when the
---server starts), or a function that gives such a list. Never set: every worker that was defined
---@field workers (seriatim.Worker|string)[]|fun(): (seriatim.Worker|string)[]
---@field poll_interval number  1; fallback polling interval in seconds: nodes are normally woken by pub/sub, this catches a missed message
---@field threads_per_node integer  5; how many deliveries a server process runs at once
---a URL, a function that gives one, or nil: SERIATIM_REDIS_URL, the variable that REDIS_PROVIDER names, REDIS_URL, or
---else a private Redis
---@field redis string|(fun(): string)|nil
---5; connections for pushes and queries, where light threads share a Lua state (else one is enough)
---@field client_pool_size integer
---@field pool_timeout number  5; seconds to wait for a free one before POOL_TIMEOUT
---10; seconds after which a push fails, from its call to its return, pool_timeout and wait_timeout included; from 0.1 to 50
---@field push_timeout number
---0; how many replicas of Redis must have a push before it returns; too few: an error of kind NOT_REPLICATED
---@field wait_replicas integer
---@field wait_timeout number  1; seconds that a push waits for its replicas, for each 256 KB of jobs
---around every delivery, the first outermost; not calling next means that the jobs are done
---@field server_middlewares seriatim.ServerMiddleware[]
---around every push; they may change the job tables; not calling next means that nothing is written
---@field client_middlewares seriatim.ClientMiddleware[]
---on_server_init(f) adds a function that is called once in each server process (an nginx worker is one), after the application
---is loaded and before any job
---@field on_server_init seriatim.Hooks
---on_thread_init(f) adds a function that is called in each Lua state that runs jobs, before the first of them: seriatim-lua's
---threads have one each, which loads the application again and shares nothing with the others, so a connection that jobs use is
---opened here; an nginx worker has one
---@field on_thread_init seriatim.Hooks
---last_words(f) adds a function that is called with the error that ends a server process
---@field last_words seriatim.Hooks
---gives the scheduler of a group of shards: build_lag_scheduler (default), build_seq_scheduler,
---build_priority_scheduler, or a function whose result is called with the candidates
---@field build_scheduler fun(): seriatim.Scheduler
---gives the splitter: build_balanced_splitter (default), build_default_splitter, function() return
---seriatim.build_by_node_splitter(nodes, node) end, or a function whose result is called with the shards
---@field build_splitter fun(): seriatim.Splitter
---@field dump_payload nil|fun(payload: any): string  and
---@field load_payload nil|fun(data: string): any  the codec of workers that name none. nil: canonical JSON
---@field format_error fun(raised: any, traceback: string?): string  what is kept of a failure: raised.message or tostring(raised),
---and the first ten lines of the traceback, at most 4 KiB
---@field dump_error fun(text: string): string  and
---@field load_error fun(stored: string): string  around stored errors, to compress them, say
---@field lease_time number  10; seconds without a heartbeat after which other nodes take over the shards of a node
---@field stop_timeout number  25; seconds that a stopping server waits for running jobs
---@field namespace string  "seriatim"; what every key in Redis begins with: 1 to 128 bytes, none of them zero
local seriatim = {
  version = version,
  worker = worker.define,
  push = push.push,
  pipelined = pipelines.pipelined,
  pop = pops.pop,
  delivery = pops.delivery,
  nodes = metrics.nodes,
  ick = ick.new,
  events = events.new,
  quiet_node = node_commands.quiet_node,
  stop_node = node_commands.stop_node,
  redis_url = redis_url.resolve,
  reset_settings = settings.reset,
  is_error = errors.is,
  build_balanced_splitter = splitters.build_balanced_splitter,
  build_default_splitter = splitters.build_default_splitter,
  build_by_node_splitter = splitters.build_by_node_splitter,
  build_lag_scheduler = schedulers.build_lag_scheduler,
  build_seq_scheduler = schedulers.build_seq_scheduler,
  build_priority_scheduler = schedulers.build_priority_scheduler,
  null = native.null,
  array_mt = native.array_mt,
}

---Marks a table as a list, so that it is one to JSON even when it is empty.
---@param list table?  nil: a new one
---@return table  the same
function seriatim.array(list)
  if list == nil then
    list = {}
  end
  return setmetatable(validate.list("array", list), native.array_mt)
end

setmetatable(seriatim, {
  __index = function(_, name)
    if settings.is_one(name) then
      return settings[name]
    end
  end,
})

---A function can be replaced by another one, by that of a test, say.
local function set(_, name, value)
  if validate.is_callable(rawget(seriatim, name)) and validate.is_callable(value) then
    rawset(seriatim, name, value)
  else
    settings.set(settings, name, value)
  end
end

-- The module itself is empty, so that Lua asks `set` for every name, those of the functions among them.
---@type seriatim
local module = setmetatable({}, { __index = seriatim, __newindex = set })
return module
