-- Pushes jobs.

local jobs = require "seriatim.client.jobs"
local middlewares = require "seriatim.client.middlewares"
local pipelines = require "seriatim.client.pipeline"
local pool = require "seriatim.client.pool"
local push_result = require "seriatim.client.push_result"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local push = {}

---What one push may say; where it says nothing, the settings of these names do.
---@class seriatim.PushOptions
---@field wait_replicas integer?  how many replicas of Redis must have it before the push returns
---@field wait_timeout number?  seconds they may take
---@field push_timeout number?  seconds that all of it may take
---@field handle boolean?  answer a handle for each job; a push with deliver_at or deliver_in always does

local OPTIONS = { "wait_replicas", "wait_timeout", "push_timeout" }
local SHORTEST = 0.001 -- seconds: what the core takes for a push whose time is over

---What is said of one push. deadline_ms: by native.now_ms.
---@class seriatim.PushLimits
---@field wait_replicas integer
---@field wait_timeout number
---@field deadline_ms number
---@field handle boolean

---@return seriatim.PushLimits
local function limits_of(options)
  options = options or {}
  if type(options) ~= "table" then
    validate.refuse("options", "a table", options)
  end
  local limits = {}
  for _, name in ipairs(OPTIONS) do
    local value = options[name]
    limits[name] = value ~= nil and validate[name](name, value) or settings[name]
  end
  limits.handle = options.handle ~= nil and validate.flag("handle", options.handle)
  for name in pairs(options) do
    if limits[name] == nil then
      errors.misuse(("unknown option %s; known are %s, handle"):format(validate.shown(name), table.concat(OPTIONS, ", ")))
    end
  end
  limits.deadline_ms = native.now_ms() + limits.push_timeout * 1000
  return limits
end

---Seconds.
local function left_of(limits)
  return math.max((limits.deadline_ms - native.now_ms()) / 1000, SHORTEST)
end

---The result of a push, or what was said of it, from what connection:call("push", ...) gives.
---@return seriatim.PushResult?
---@return seriatim.Error? err
local function outcome(added, folded, places, shortage, warning, scheduled, stale, handles)
  if not added then
    return nil, folded
  end
  if warning then
    push_result.warn_once(warning)
  end
  local result = push_result.of(added, folded, places, scheduled, stale, handles)
  if shortage then
    return push_result.not_replicated(shortage, result)
  end
  return result
end

---@param worker seriatim.Worker
---@param rows seriatim.JobRow[]
---@param limits seriatim.PushLimits?  nil: as the settings say, from now
---@return seriatim.PushResult?  in pipelined a seriatim.PushFuture
---@return seriatim.Error? err
function push.write(worker, rows, limits)
  local block = pipelines.current()
  if block then
    return block:add(worker, rows, limits or limits_of())
  end
  if #rows == 0 then
    return push_result.of(0, 0, {})
  end
  limits = limits or limits_of()
  return outcome(pool.ask(function(connection)
    local queue = connection:number(worker:queue_settings())
    return connection:call("push", queue, rows, limits.wait_replicas, limits.wait_timeout, left_of(limits),
      limits.handle, nil)
  end))
end

local function through(chain, worker, list, write)
  local result, err = push_result.of(0, 0, {}), nil
  middlewares.call("client_middlewares", chain, worker, list, function()
    result, err = write(worker, jobs.checked(list, worker:payload_codec()))
    return result, err
  end)
  return result, err
end

---Checks everything, passes the jobs through the client middlewares, checks again and writes.
---@param worker seriatim.Worker
---@param list seriatim.Job[]
---@param options seriatim.PushOptions?
---@return seriatim.PushResult?
---@return seriatim.Error? err
function push.push(worker, list, options)
  local limits = limits_of(options)
  return push.push_by(function(to, rows)
    return push.write(to, rows, limits)
  end, worker, list)
end

---As push, with another function that writes the rows.
---@param write fun(worker: seriatim.Worker, rows: seriatim.JobRow[]): seriatim.PushResult?, seriatim.Error?
function push.push_by(write, worker, list)
  if type(worker) ~= "table" or not worker.payload_codec then
    errors.misuse("push needs a worker, as in worker:perform_async(jobs), not " .. validate.kind(worker))
  end
  local chain = settings.client_middlewares
  if next(chain) == nil then
    return write(worker, jobs.checked(list, worker:payload_codec()))
  end
  local normal = jobs.normalize(list)
  jobs.checked(normal, worker:payload_codec())
  return through(chain, worker, normal, write)
end

return push
