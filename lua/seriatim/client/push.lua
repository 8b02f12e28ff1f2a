-- Pushes jobs.

local inspect = require "seriatim.client.inspect"
local jobs = require "seriatim.client.jobs"
local middlewares = require "seriatim.client.middlewares"
local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local push = {}

---What a push did.
---@class seriatim.PushResult
---@field added integer  jobs that made a new waiting id
---@field folded integer  jobs that united with an id that waits
---@field refused integer  jobs that on_waiting reject or unique turned away
---@field refused_at integer[]  their places in the call, from 1
---@field scheduled integer  jobs that arrive later, at their deliver_at
---@field stale integer  jobs whose score was not above the one that is remembered of their id (remember_score): they are not kept
---@field handles (string|false)[]  one a job, where the push was given handle = true or has a job with deliver_at; else empty. It names the
---payload for actions:cancel and actions:reschedule. A job that was folded into an equal payload has that one's; false: it was not kept

local PushResult = inspect.class("seriatim.PushResult", { "added", "folded", "refused", "refused_at", "scheduled", "stale", "handles" })

local function result_of(added, folded, places, scheduled, stale, handles)
  return setmetatable({
    added = added,
    folded = folded,
    refused = #places,
    refused_at = places,
    scheduled = scheduled or 0,
    stale = stale or 0,
    handles = handles or {},
  }, PushResult)
end

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

local function not_replicated(shortage, result)
  local err = errors.new("NOT_REPLICATED", shortage)
  err.result = result
  return nil, err
end

local warned = {}

---Each connection of the pool finds the same difference.
local function warn_once(text)
  if not warned[text] then
    warned[text] = true
    log.warn("warning", text)
  end
end

---The result of a push, or what was said of it, from what connection:call("push", ...) gives.
---@return seriatim.PushResult?
---@return seriatim.Error? err
function push.outcome(added, folded, places, shortage, warning, scheduled, stale, handles)
  if not added then
    return nil, folded
  end
  if warning then
    warn_once(warning)
  end
  local result = result_of(added, folded, places, scheduled, stale, handles)
  if shortage then
    return not_replicated(shortage, result)
  end
  return result
end

---@param worker seriatim.Worker
---@param rows seriatim.JobRow[]
---@param limits seriatim.PushLimits?  nil: as the settings say, from now
---@return seriatim.PushResult?
---@return seriatim.Error? err
function push.write(worker, rows, limits)
  if #rows == 0 then
    return result_of(0, 0, {})
  end
  limits = limits or limits_of()
  return push.outcome(pool.ask(function(connection)
    local queue = connection:number(worker:queue_settings())
    return connection:call("push", queue, rows, limits.wait_replicas, limits.wait_timeout, left_of(limits),
      limits.handle, nil)
  end))
end

local function through(chain, worker, list, write)
  local result, err = result_of(0, 0, {}), nil
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
  if #chain == 0 then
    return write(worker, jobs.checked(list, worker:payload_codec()))
  end
  local normal = jobs.normalize(list)
  jobs.checked(normal, worker:payload_codec())
  return through(chain, worker, normal, write)
end

return push
