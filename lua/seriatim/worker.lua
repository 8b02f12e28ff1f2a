-- Workers: what runs the jobs of one queue.
--
--     local OrderWorker = seriatim.worker {
--       name = "OrderWorker", shards_count = 24,
--       perform = function(payloads_by_id) end,
--     }

local actions = require "seriatim.client.actions"
local codec = require "seriatim.client.codec"
local metrics = require "seriatim.client.metrics"
local push = require "seriatim.client.push"
local queries = require "seriatim.client.queries"
local queue = require "seriatim.client.queue"
local spelling = require "seriatim.client.spelling"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"

local worker = {}

---All workers that were defined in this Lua state, in that order, each with the place that defined it.
---@type { worker: seriatim.Worker, place: seriatim.Place, perform_at: string }[]
worker.all = {}

---What retries_exhausted is called with; payloads as {payload, score}: the first of payloads_count, up to some 256 KiB.
---@class seriatim.ExhaustedJob
---@field id string
---@field payloads any[][]
---@field payloads_count integer
---@field error string?

---Options of seriatim.worker, and fields of what it gives, where they are checked again when they are set. Only the name is
---mandatory.
---@class seriatim.WorkerOptions: seriatim.WorkerSettings
---payloads come by score, then by arrival; what it raises fails all ids that it did not report one by one through the batch
---@field perform nil|fun(payloads_by_id: table<string, any[]>, batch: seriatim.Batch)
---@field retry_in nil|fun(count: integer): number  seconds until the next run after the (count + 1)-th failure in a row
---called for jobs whose retries are used up, for payloads that the codec could not read (as their bytes), and for ids that
---kill or kill_all_failed_jobs has buried; at most 100 a call. Called at least once: again, in another process, if this one dies
---before the call has returned or raised
---@field retries_exhausted nil|fun(jobs: seriatim.ExhaustedJob[])
---@field perform_async nil|fun(worker: seriatim.Worker, jobs: table[], options: seriatim.PushOptions?): seriatim.PushResult?, seriatim.Error?

local SETTINGS = native.worker_settings()

-- name and check of each option, in the order of messages
local OPTIONS = {
  { "name", function(field, value) return validate.text(field, value, 1, 512) end },
  { "perform", validate.callable_or_nil },
  { "retry_in", validate.callable_or_nil },
  { "retries_exhausted", validate.callable_or_nil },
  { "perform_async", validate.callable_or_nil },
}
for _, setting in ipairs(SETTINGS) do
  OPTIONS[#OPTIONS + 1] = { setting.name, validate.of_setting(setting) }
end
OPTIONS[#OPTIONS + 1] = { "codec", codec.check }

local NAMES, CHECKS = {}, {}
for place, option in ipairs(OPTIONS) do
  NAMES[place], CHECKS[option[1]] = option[1], option[2]
end

---@class seriatim.Worker: seriatim.WorkerOptions
---@field queries seriatim.Queries  what is in the queue
---@field actions seriatim.Actions  what an operator does to it
---@field queue seriatim.Queue  the queue in Redis
local Worker = {}
for _, setting in ipairs(SETTINGS) do
  Worker[setting.name] = setting.default
end

---Seconds until the next run after the (count + 1)-th failure in a row; count is the new retry_count, from 0.
---@param count integer
---@return number
function Worker.retry_in(count)
  return native.back_off(count)
end

function Worker.retries_exhausted(_) end

---Pushes jobs. May be overridden, and call seriatim.push(worker, jobs, options). Raises misuse, naming the job and the field, before
---anything is written.
---@param list seriatim.Job[]
---@param options seriatim.PushOptions?
---@return seriatim.PushResult?  nil: Redis cannot be reached or refuses, or too few replicas have it
---@return seriatim.Error? err
function Worker:perform_async(list, options)
  return push.push(self, list, options)
end

---The queue's figures now, and at .shards those of each.
---@return seriatim.Metrics?
---@return seriatim.Error? err
function Worker:metrics()
  return metrics.of(self)
end

---The settings as the core takes them, by name; the same table until one changes. For the library's own use.
---@return seriatim.QueueSettings
function Worker:queue_settings()
  local made = rawget(self, "_settings")
  if not made then
    made = { exhausted_hook = rawget(self, "_values").retries_exhausted ~= nil, assumed = rawget(self, "_assumed") }
    for _, setting in ipairs(SETTINGS) do
      made[setting.name] = self[setting.name]
    end
    rawset(self, "_settings", made)
  end
  return made
end

---@return seriatim.Codec
function Worker:payload_codec()
  return codec.of(self.codec)
end

local metatable = {}

function metatable.__index(self, name)
  local value = rawget(self, "_values")[name]
  if value == nil then
    return Worker[name]
  end
  return value
end

function metatable.__newindex(self, name, value)
  local checked = CHECKS[name]
  local label = rawget(self, "_label")
  if not checked then
    local problem = "%s: unknown option %s%s; known are %s"
    errors.misuse(problem:format(label, validate.shown(name), spelling.did_you_mean(name, NAMES), table.concat(NAMES, ", ")))
  end
  rawget(self, "_values")[name] = checked(label .. "." .. name, value)
  rawset(self, "_settings", nil)
  rawset(self, "_perform_info", nil)
end

function metatable.__tostring(self)
  return ("seriatim.worker %s"):format(self.name)
end

---@param value any
---@return boolean
function worker.is(value)
  return getmetatable(value) == metatable
end

---How messages name the worker while its options, the name among them, are checked.
local function label_of(options)
  local name = options.name or options.queue_name
  return type(name) == "string" and name ~= "" and name or "worker"
end

local function set_names(made, options)
  made.queue_name = options.queue_name or options.name
  made.name = options.name or options.queue_name
end

---File and line; "": it is none that Lua knows.
local function defined_at(called)
  local info = type(called) == "function" and debug.getinfo(called, "S")
  return info and ("%s:%d"):format(info.source, info.linedefined) or ""
end

---Makes a worker.
---@param options seriatim.WorkerOptions
---@return seriatim.Worker
function worker.define(options)
  if type(options) ~= "table" then
    validate.refuse("worker", "a table of options", options)
  end
  if options.name == nil and options.queue_name == nil then
    errors.misuse("worker: name is missing")
  end
  local made = setmetatable({ _values = {}, _label = label_of(options) }, metatable)
  for name, value in pairs(options) do
    made[name] = value
  end
  set_names(made, options)
  rawset(made, "queries", queries.new(made))
  rawset(made, "actions", actions.new(made))
  rawset(made, "queue", queue.new(made))
  table.insert(worker.all, { worker = made, place = errors.place(), perform_at = defined_at(options.perform) })
  return made
end

return worker
