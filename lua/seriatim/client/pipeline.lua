-- Pushes of several workers that are collected and written together.

local blocks = require "seriatim.client.blocks"
local pool = require "seriatim.client.pool"
local push_result = require "seriatim.client.push_result"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local pipelines = {}

local SHORTEST = 0.001 -- seconds: what the core takes for a push whose time is over
local EARLY = "the result of this push is there when the function of pipelined has ended, and only if no error ended it"

---What a push in the function of pipelined returns. After the end it has the fields of seriatim.PushResult, too.
---@class seriatim.PushFuture: seriatim.PushResult
local Future = {}

---@return seriatim.PushResult?
---@return seriatim.Error? err  what became of this push
function Future:value()
  local ended = rawget(self, "ended")
  if not ended then
    errors.misuse(EARLY)
  end
  return ended.result, ended.err
end

function Future.__index(self, key)
  if key == "value" then
    return Future.value
  end
  local result, err = Future.value(self)
  if not result then
    error(err, 0)
  end
  return result[key]
end

---The pushes of one function, in one coroutine.
---@class seriatim.Pipeline
---@field waiting table[]
local Pipeline = {}
Pipeline.__index = Pipeline

local entered = blocks.new()

---That of the function which this coroutine is in. A child of fork does not take part.
---@return seriatim.Pipeline?
function pipelines.current()
  local block = entered:current()
  return block and block.pid == native.getpid() and block or nil
end

---Checks the rows, which are the jobs as they are now.
---@return seriatim.PushFuture
function Pipeline:add(worker, rows, limits)
  -- A client that is never connected: it knows the rules of the core.
  self.checker = self.checker or errors.must(errors.guard(native.client, settings.namespace, "seriatim-client", 0))
  local queue_settings = worker:queue_settings()
  local number = errors.must(errors.guard(self.checker.queue, self.checker, queue_settings))
  errors.must(errors.guard(self.checker.check_jobs, self.checker, number, rows))
  local future = setmetatable({}, Future)
  table.insert(self.waiting, {
    settings = queue_settings,
    rows = rows,
    limits = limits,
    seconds = math.max((limits.deadline_ms - native.now_ms()) / 1000, SHORTEST),
    future = future,
  })
  return future
end

local function result_of(outcome)
  local added, folded, places, kind, message = outcome[1], outcome[2], outcome[3], outcome[4], outcome[5]
  local result = push_result.of(added, folded, places, outcome[6], outcome[7], outcome[8])
  if kind == "REPLICAS" then
    return push_result.not_replicated(message, result)
  end
  if kind then
    return nil, errors.new(kind, message)
  end
  return result
end

---What they together end with.
function Pipeline:take(outcomes, kind, message, warning)
  if not outcomes then
    return self:fail(kind)
  end
  if warning then
    push_result.warn_once(warning)
  end
  local results = {}
  for place, push in ipairs(self.waiting) do
    local result, err = result_of(outcomes[place])
    rawset(push.future, "ended", { result = result, err = err })
    results[place] = result or err.result
  end
  if kind == "REPLICAS" then
    return push_result.not_replicated(message, results)
  end
  if kind then
    return errors.failure(kind, message)
  end
  return results
end

function Pipeline:fail(err)
  for _, push in ipairs(self.waiting) do
    rawset(push.future, "ended", { err = err })
  end
  return nil, err
end

---Writes all pushes.
function Pipeline:finish()
  if #self.waiting == 0 or self.pid ~= native.getpid() then -- the jobs are those of the parent
    return {}
  end
  local seconds = math.huge
  for _, push in ipairs(self.waiting) do
    seconds = math.min(seconds, push.seconds)
  end
  local deadline_ms = native.now_ms() + seconds * 1000
  return self:take(pool.ask(function(connection)
    local left, pushes = math.max((deadline_ms - native.now_ms()) / 1000, SHORTEST), {}
    for place, push in ipairs(self.waiting) do
      local limits = push.limits
      pushes[place] =
        { connection:number(push.settings), push.rows, limits.wait_replicas, limits.wait_timeout, left, limits.handle }
    end
    return connection:call("pipeline", pushes, nil)
  end))
end

---Collects the pushes of the function, of any workers, and writes them together when it has ended. perform_async checks its jobs
---and runs the client middlewares as always, and returns a seriatim.PushFuture. All jobs of a queue are sent as one push.
---
---An error of the function is raised again, and nothing is written. A function inside of another one joins it. Only this coroutine
---takes part: others, and a child of fork, push at once. Of push_timeout, wait_replicas and wait_timeout of the pushes the strictest
---hold for all; push_timeout counts from the end of the function.
---@param pushes fun()
---@return seriatim.PushResult[]?  of the pushes, in their order; empty where it has joined another one
---@return seriatim.Error? err  the worst that became of a queue, which the message names; each future tells the outcome of its push
function pipelines.pipelined(pushes)
  validate.callable("the argument of pipelined", pushes)
  if pipelines.current() then
    pushes()
    return {}
  end
  local block = setmetatable({ waiting = {}, pid = native.getpid() }, Pipeline)
  entered:enter(block, pushes)
  return block:finish()
end

return pipelines
