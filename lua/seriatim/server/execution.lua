-- Runs one delivery. This is the error boundary: whatever way user code takes to leave, every id gets an outcome and the
-- delivery is settled. It runs in a host thread's state and in nginx's light threads alike: it never blocks by itself, and
-- user code may yield (but not in PUC 5.1, whose pcall cannot).
local codec = require "seriatim.client.codec"
local errors = require "seriatim.errors"
local middlewares = require "seriatim.client.middlewares"
local stored_error = require "seriatim.client.stored_error"
local log = require "seriatim.log"
local native = require "seriatim.native"
local batches = require "seriatim.server.batch"
local settings = require "seriatim.settings"

local WORKER_DIED = "worker died"
local ABORTED = "nginx ended its light thread: an error in a coroutine, which its log tells, or ngx.exit in a job of the same timer"

local execution = {}
local Execution = {}
Execution.__index = Execution

---xpcall with an argument, which PUC 5.1 has not.
local guard = xpcall
if not select(2, xpcall(function(given) return given end, tostring, true)) then
  function guard(call, handler, argument)
    local ran, result = xpcall(function() return call(argument) end, handler) -- no tail call: a traceback would not name xpcall
    return ran, result
  end
end

---Does perform take a second argument? PUC 5.1 does not tell: then it does.
local function takes_batch(perform)
  local info = type(perform) == "function" and debug.getinfo(perform, "u") or {}
  return not info.nparams or info.nparams > 1 or info.isvararg
end

---What every delivery needs to know of its worker, computed once and again when one of its options or a setting has changed.
local function perform_info_of(worker)
  local perform_info = worker._perform_info
  if not perform_info or perform_info.changes ~= settings.changes then
    local perform = worker.perform
    perform_info = { perform = perform, takes_batch = takes_batch(perform), changes = settings.changes }
    perform_info.middlewares = settings.server_middlewares -- may be inserted into
    perform_info.payloads_only = not perform_info.takes_batch and codec.is_json(worker.codec)
    rawset(worker, "_perform_info", perform_info)
  end
  return perform_info
end

---@param payloads_by_id table?  where they were read already
---@param waits seriatim.Waits?
function Execution.new(worker, delivery, payloads_by_id, waits)
  return setmetatable({ worker = worker, delivery = delivery, payloads_by_id = payloads_by_id, waits = waits }, Execution)
end

-- ---- errors

---The place of the innermost Lua code on the stack.
local function place_of_error()
  local level = 3
  local info = debug.getinfo(level, "Sl")
  while info and info.currentline <= 0 do
    level = level + 1
    info = debug.getinfo(level, "Sl")
  end
  return info and ("%s:%d"):format(info.short_src, info.currentline)
end

local function seen(value)
  return { value = value, place = place_of_error(), traceback = debug.traceback("", 2) }
end

---Its text, with the place in the application where it was raised if it does not begin with one.
local function described(failure)
  local text, place = log.describe(failure.value), failure.place
  if not place or place:find("seriatim/[%w_/]+%.lua:%d+$") or text:find("^[^\n]-:%d+: ") then
    return text
  end
  return ("%s (%s)"):format(text, place)
end

---User code whose failure must not be more than a line in the log.
function Execution:hook(name, fallback, call, ...)
  local made, result = pcall(call, ...)
  if made then
    return result
  end
  log.error("hook", ("%s raised %s"):format(name, log.describe(result)), { q = self.worker.queue_name })
  return fallback
end

-- ---- run

---What user code raised, from what guard gave; nil: nothing.
local function raised_by(ran, failure)
  return not ran and (failure or { value = "error in error handling" }) or nil
end

---True: nobody else holds the delivery.
function Execution:run()
  if not self:read_json() and not self:decode() then
    return true
  end
  local is_debug = log.is_debug()
  if is_debug then
    self:log_event("start")
  end
  local failure = raised_by(guard(self.through_middlewares, seen, self))
  if failure or self.partial or self.outcomes then
    self:conclude(failure)
  else
    self.delivery:done_all()
  end
  if is_debug and not failure then
    self:log_event("done")
  end
  return self.made_batch == nil
end

function Execution:through_middlewares()
  local chain = settings.server_middlewares
  if next(chain) == nil then
    return self:core()
  end
  return middlewares.call("server_middlewares", chain, self.worker, self:batch(), function()
    return self:core()
  end)
end

---`return nil, err` (false, err), the way of Lua's libraries, is a failure as error() is one.
function Execution:core()
  local perform_info = perform_info_of(self.worker)
  local result, err = perform_info.perform(self.payloads_by_id, perform_info.takes_batch and self:batch() or nil)
  if not result and err ~= nil then
    error(err, 0)
  end
  return result, err
end

function Execution:batch()
  if not self.made_batch then
    self.made_batch = batches.new(self)
  end
  return self.made_batch
end

---In the order of the delivery.
function Execution:list()
  if not self.ids then
    self.ids = self.delivery:ids()
  end
  return self.ids
end

function Execution:places_by_id()
  if not self.places then
    self.places = {}
    for place, id in ipairs(self:list()) do
      self.places[id] = place
    end
  end
  return self.places
end

---A checkpoint of the batch is to be sent now. A runner has a thread for that; nginx' loop is to be told. The waits keep which ids
---have one, for what follows an abort of this execution.
function Execution:hurry()
  if self.waits then
    self.waits.checkpointed = self.checkpointed
    self.waits.notify()
  end
end

---Waits for the answers to the checkpoints.
---@return boolean? flushed
---@return seriatim.Error? err
function Execution:flush()
  local pause = 0.001
  local flushed, err = errors.outcome(self.delivery:flush())
  while flushed == false do
    self.waits.sleep(pause)
    pause = math.min(2 * pause, 0.02)
    flushed, err = errors.outcome(self.delivery:flush())
  end
  return flushed, err
end

-- ---- payloads

---False where the codec is another, or some payload cannot be read.
function Execution:read_json()
  self.codec = self.worker:payload_codec()
  if self.codec ~= codec.json then
    return false
  end
  self.payloads_by_id = self.delivery:payloads_by_id()
  return self.payloads_by_id ~= nil
end

---Keeps the ids whose payloads can all be read. Of the others the unreadable payloads go to the morgue.
function Execution:decode()
  self.payloads_by_id, self.ids, self.places, self.partial = {}, {}, {}, true
  for place = 1, self.delivery:size() do
    local row = self:row(place)
    local values = self:decode_row(row, place)
    if values then
      self.ids[#self.ids + 1] = row.id
      self.payloads_by_id[row.id] = values
      self.places[row.id] = place
    end
  end
  return #self.ids > 0
end

function Execution:decode_row(row, place)
  local values, broken, reason = {}, {}, nil
  for at, payload in ipairs(row.payloads) do
    local value, why = self.codec.load(payload[1])
    values[at] = value
    if value == nil then
      reason = reason or "undecodable payload: " .. log.describe(why)
      broken[#broken + 1] = at
    end
  end
  if #broken == 0 then
    return values
  end
  self.delivery:reject(place, broken, stored_error.of(reason, self.worker.queue_name))
  self:note_failure(reason)
  self:log_failure(place, ("%d payloads cannot be read: %s"):format(#broken, reason), { id = row.id })
end

function Execution:row(place)
  self.rows = self.rows or {}
  local row = self.rows[place]
  if not row then
    local id, fence, retry_count, perform_in, err, payloads, total = self.delivery:job(place)
    row = {
      id = id,
      fence = fence,
      retry_count = retry_count,
      perform_in = perform_in,
      error = err,
      payloads = payloads,
      payloads_count = total,
    }
    self.rows[place] = row
  end
  return row
end

-- ---- outcomes

---In a row: behind a checkpoint what is left counts as never failed.
function Execution:failures_before(place)
  return self.checkpointed and self.checkpointed[place] and 0 or self:row(place).retry_count + 1
end

---The outcome of every id; without one of its own it shares the call's.
function Execution:conclude(failure)
  local places, outcomes = self:places_by_id(), self.outcomes or {}
  for _, id in ipairs(self:list()) do
    self:settle_id(places[id], outcomes[id] or failure)
  end
end

local function report(self, place, outcome)
  if outcome == nil or outcome == batches.DONE then
    errors.must(self.delivery:done(place))
  elseif type(outcome) == "table" and outcome.snooze then
    errors.must(self.delivery:snooze(place, outcome.snooze, outcome.payload))
  else
    self:fail(place, outcome)
  end
end

---What is raised here is a failure of this id alone; without an outcome the core would hand it out again at once.
function Execution:settle_id(place, outcome)
  local reported, raised = pcall(report, self, place, outcome)
  if reported then
    return
  end
  local row, text = self:row(place), log.describe(raised)
  local count = self:failures_before(place)
  if self.delivery:fail(place, stored_error.of(text, self.worker.queue_name), native.back_off(count)) then
    self:note_failure(raised)
    self:log_failure(place, text, { id = row.id, n = count })
  end
end

---A delivery of a test mode tells the test what was raised.
function Execution:note_failure(failure)
  if not self.delivery.note_failure then
    return
  end
  if type(failure) == "table" then
    failure = failure.value
  end
  self.delivery:note_failure(failure)
end

---failure: {value, place, traceback}, or a text that no hook formats.
function Execution:fail(place, failure)
  local row = self:row(place)
  local count = self:failures_before(place)
  self:note_failure(failure)
  self.delivery:fail(place, self:error_text(failure), self:retry_in(count))
  local text = type(failure) == "string" and failure or described(failure)
  local elapsed = self.payloads_by_id and self.delivery:elapsed()
  self:log_failure(place, text, { id = row.id, n = count, elapsed = elapsed or nil })
  if type(failure) == "table" and failure.traceback then
    log.debug("traceback", failure.traceback:gsub("^%s+", ""), { q = self.worker.queue_name, id = row.id })
  end
end

function Execution:error_text(failure)
  local text = failure
  if type(failure) == "table" then
    text = self:hook("format_error", nil, settings.format_error, failure.value, failure.traceback)
    if type(text) ~= "string" or text == "" then
      text = described(failure)
    end
  end
  return stored_error.of(text, self.worker.queue_name)
end

---Seconds; the default formula where the worker's own gives none.
function Execution:retry_in(count)
  local seconds = self:hook("retry_in", nil, self.worker.retry_in, count)
  if type(seconds) == "number" and seconds == seconds then
    return seconds
  end
  local text = ("retry_in(%d) gave %s; the default formula is used"):format(count, tostring(seconds))
  log.error("hook", text, { q = self.worker.queue_name })
  return native.back_off(count)
end

-- ---- what is not run

function Execution:died(text)
  for place = 1, self.delivery:size() do
    self:settle_id(place, text)
  end
end

function Execution:exhausted()
  local jobs = {}
  for place = 1, self.delivery:size() do
    jobs[place] = self:exhausted_job(self:row(place))
  end
  self:hook("retries_exhausted", nil, self.worker.retries_exhausted, jobs)
end

function Execution:exhausted_job(row)
  local load = self.worker:payload_codec().load
  local payloads = {}
  for at, payload in ipairs(row.payloads) do
    local value = load(payload[1])
    payloads[at] = { value == nil and payload[1] or value, payload[2] }
  end
  local err = row.error and self:hook("load_error", row.error, settings.load_error, row.error)
  return { id = row.id, payloads = payloads, payloads_count = row.payloads_count, error = err }
end

-- ---- the log

---One line each, which says whether it was the last one; of many in a second only their count, which the runner or the node tells.
function Execution:log_failure(place, text, fields)
  local event = self.delivery:failure(place)
  if event then
    fields.q = self.worker.queue_name
    log.write(event == "fail" and log.WARN or log.ERROR, event, log.brief(text), fields)
  end
end

function Execution:log_event(event)
  local ids = self:list()
  log.debug(event, nil, { q = self.worker.queue_name, id = ids[1], n = #ids, elapsed = self.delivery:elapsed() })
end

-- ---- whatever it is

---The fast path is for perform functions that take only payloads, in JSON, without middlewares and without the debug log.
local function takes_fast_path(perform_info)
  return perform_info.payloads_only and next(perform_info.middlewares) == nil and log.level > log.DEBUG
end

local steps = {}

---How the jobs of a node without a thread wait for Redis: nginx' light threads.
---@class seriatim.Waits
---@field notify fun()  there is something to send
---@field sleep fun(seconds: number)
---@field checkpointed table<integer, boolean>?  places of the delivery that runs, or ran last, which have a checkpoint

---source: where the next deliveries are taken from, as long as they are this worker's and take the fast path.
---@return boolean reusable  nobody else holds the delivery
---@return seriatim.Delivery|false|nil next_delivery  as of source:advance, where that was called
function steps.run(worker, delivery, source, waits)
  local perform_info = perform_info_of(worker)
  local payloads_by_id = takes_fast_path(perform_info) and delivery:payloads_by_id()
  if not payloads_by_id then
    return Execution.new(worker, delivery, nil, waits):run()
  end
  local next_delivery
  repeat
    local ran, result, err = guard(perform_info.perform, seen, payloads_by_id)
    if not ran or not result and err ~= nil then
      Execution.new(worker, delivery, payloads_by_id):conclude(ran and { value = err } or raised_by(ran, result))
      return true
    end
    if not source then
      delivery:done_all()
      return true
    end
    next_delivery, payloads_by_id = source.runner:advance(source.group, delivery)
    perform_info = perform_info_of(worker)
  until not (next_delivery and payloads_by_id and takes_fast_path(perform_info))
  return true, next_delivery
end

function steps.died(worker, delivery)
  Execution.new(worker, delivery):died(WORKER_DIED)
  return true
end

---What ran it is gone, past every pcall.
function steps.aborted(worker, delivery, _, waits)
  local made = Execution.new(worker, delivery)
  made.checkpointed = waits.checkpointed
  made:died(ABORTED)
  return true
end

function steps.exhausted(worker, delivery)
  Execution.new(worker, delivery):exhausted()
  return true
end

local function log_crash(worker, raised)
  log.error("crash", log.describe(raised), { q = worker.queue_name })
end

---As the step of that kind, which raised nothing. Never raises.
local function step(kind, worker, delivery, source, waits)
  local ran, reusable, next_delivery = pcall(steps[kind], worker, delivery, source, waits)
  if not ran then
    pcall(log_crash, worker, reusable)
  end
  return ran and reusable, next_delivery
end

---Refused where the server gave up waiting: what ran has been handed back then.
local function settle(delivery)
  pcall(delivery.settle, delivery)
end

---Runs it, and those that follow it at once. Gives it back for a take to settle it and to fill it again; nil: it is settled, and user
---code may hold it. Never raises.
---@param workers table<integer, seriatim.Worker>  by their numbers in the runner or node
---@param delivery seriatim.Delivery
---@param source { runner: seriatim.Runner, group: integer }?  where more may be taken from
---@param waits seriatim.Waits?
---@return seriatim.Delivery? reusable
---@return seriatim.Delivery|false|nil next_delivery  false: there will be no more. Not nil: the take was done already
function execution.work(workers, delivery, source, waits)
  local kind, number = delivery:kind()
  local reusable, next_delivery = step(kind, workers[number], delivery, source, waits)
  if reusable then
    return delivery, next_delivery
  end
  settle(delivery)
end

---Runs it and settles it. Never raises.
---@param workers table<integer, seriatim.Worker>
---@param delivery seriatim.Delivery
---@param waits seriatim.Waits?
---@return seriatim.Delivery? reusable  to be filled again, as of work
function execution.run(workers, delivery, waits)
  local reusable = execution.work(workers, delivery, nil, waits)
  if reusable then
    settle(reusable)
  end
  return reusable
end

---What ran it is gone: that is a failure of all its ids.
---@param workers table<integer, seriatim.Worker>
---@param delivery seriatim.Delivery
---@param waits seriatim.Waits  those of its run
function execution.aborted(workers, delivery, waits)
  step("aborted", workers[delivery:worker()], delivery, nil, waits)
  settle(delivery)
end

return execution
