-- Seriatim inside nginx: the module `seriatim` itself, whose connections are cosockets from now on, so that nothing blocks.
--
--     local seriatim = require "resty.seriatim"
--
--     seriatim.redis = "redis://127.0.0.1:6379"                                    -- init_by_lua_block
--     OrderWorker:perform_async { { id = 1, payload = { status = "paid" } } }      -- rewrite, access, content, timers
--     seriatim.push_later(OrderWorker, { { id = 1 } })                             -- every other one but init and exit_worker
--     seriatim.start { threads = 8 }                                               -- init_worker_by_lua_block
--     seriatim.exit()                                                              -- exit_worker_by_lua_block

-- Outside of nginx, as in a test, it is the plain module. A test may have a global `ngx` of its own; nginx's is loaded.
if not package.loaded.ngx then
  return require "seriatim"
end

local later = require "resty.seriatim.later"
local loops = require "resty.seriatim.loop"
local nodes = require "resty.seriatim.node"
local transport = require "resty.seriatim.transport"
local pool = require "seriatim.client.pool"
local private_redis = require "seriatim.client.private_redis"
local errors = require "seriatim.errors"
local log = require "seriatim.log"

---@class seriatim.nginx: seriatim
---@field push_later fun(worker: seriatim.Worker, jobs: seriatim.Job[]): integer?, seriatim.Error?
---@field later fun(): seriatim.LaterCounts
---@field start fun(options: seriatim.LoopOptions?)
---@field exit fun()
---@field stats fun(): table?
local seriatim = require "seriatim"

local LEVELS = {
  [log.DEBUG] = ngx.DEBUG,
  [log.INFO] = ngx.INFO,
  [log.WARN] = ngx.WARN,
  [log.ERROR] = ngx.ERR,
  [log.FATAL] = ngx.CRIT,
}
local EXIT_SECONDS = 1

pool.use(transport)

log.output = function(line, level)
  ngx.log(LEVELS[level] or ngx.ERR, line)
end

---No process of nginx may start a private Redis, which would end with that process.
function private_redis.url()
  errors.usage("no Redis: set seriatim.redis (nginx hides REDIS_URL from Lua, unless its configuration says `env REDIS_URL;`)")
end

local loop

---Runs the jobs of the workers in this nginx worker, in light threads: for init_worker_by_lua_block. Raises misuse: no worker,
---two of one queue, an unknown queue, and where nginx refuses the loop a timer.
---@param options seriatim.LoopOptions?
local function start(options)
  if ngx.get_phase() ~= "init_worker" then
    errors.misuse("start: belongs into init_worker_by_lua_block")
  end
  if loop then
    errors.misuse("start: called twice in this nginx worker")
  end
  log.thread = ("worker-%d"):format(ngx.worker.id() or 0)
  local checked, found = pcall(nodes.options, options)
  if not checked then
    errors.refuse(found)
  end
  loop = loops.new(found)
  loop:start()
end

---For exit_worker_by_lua_block: writes what push_later still holds when nginx is terminated (TERM), for at most a second.
---After QUIT and HUP there is nothing left to do.
local function exit()
  later.flush_blocking(EXIT_SECONDS)
end

---Figures of this nginx worker's node, as Server:stats; nil: it has none now.
---@return table?
local function stats()
  return loop and loop.made and loop.made.node:stats() or nil
end

local ADDED = { push_later = later.push, later = later.counts, start = start, exit = exit, stats = stats }
for name, added in pairs(ADDED) do
  rawset(getmetatable(seriatim).__index, name, added)
end

return seriatim
