-- Runs one delivery. This is the error boundary: whatever way user code takes to leave, every id gets an outcome and the
-- delivery is settled. It runs in a host thread's state and in nginx's light threads alike: it never blocks by itself, and
-- user code may yield (but not in PUC 5.1, whose pcall cannot).
local batches = require "seriatim.batch"
local codec = require "seriatim.codec"
local log = require "seriatim.log"
local middlewares = require "seriatim.middlewares"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local WORKER_DIED = "worker died"
local ABORTED = "nginx aborted its light thread: an error in a coroutine, which its log tells"

local execution = {}
local Execution = {}
Execution.__index = Execution

---xpcall with an argument, which PUC 5.1 has not.
local guard = xpcall
if not select(2, xpcall(function(given) return given end, tostring, true)) then
  function guard(call, handler, argument)
    return xpcall(function() return call(argument) end, handler)
  end
end

local TAKES_BATCH = setmetatable({}, { __mode = "k" })

---Does perform take a second argument? PUC 5.1 does not tell: then it does.
local function takes_batch(perform)
  local known = TAKES_BATCH[perform]
  if known == nil then
    local info = type(perform) == "function" and debug.getinfo(perform, "u") or {}
    known = not info.nparams or info.nparams > 1 or info.isvararg
    TAKES_BATCH[perform] = known
  end
  return known
end

---Does this to the delivery and settles it, whatever comes of it.
local function settle_after(step, workers, delivery, argument)
  local self = setmetatable({ delivery = delivery, worker = workers[delivery:worker()] }, Execution)
  local ran, err = pcall(step, self, argument)
  if not ran then
    pcall(Execution.crashed, self, err)
  end
  pcall(delivery.settle, delivery) -- refused where the server gave up waiting: what ran has been handed back then
end

---Runs it and settles it. workers: by their numbers in the runner or node. Never raises.
---@param workers table<integer, seriatim.Worker>
---@param delivery seriatim.Delivery
function execution.run(workers, delivery)
  settle_after(Execution[delivery:kind()], workers, delivery)
end

---What ran it is gone, past every pcall: that is a failure of all its ids.
---@param workers table<integer, seriatim.Worker>
---@param delivery seriatim.Delivery
function execution.aborted(workers, delivery)
  settle_after(Execution.died, workers, delivery, ABORTED)
end

function Execution:crashed(raised)
  log.error("crash", log.describe(raised), { q = self.worker.queue_name })
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
  if not place or place:find("seriatim/[%w_]+%.lua:%d+$") or text:find("^[^\n]-:%d+: ") then
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

function Execution:run()
  self.started = native.now_ms()
  if not self:read_json() and not self:decode() then
    return
  end
  local is_debug = log.is_debug()
  if is_debug then
    self:log_event("start")
  end
  local failure = self:perform()
  if failure or self.partial or self:has_outcomes() then
    self:conclude(failure)
  else
    self.delivery:done_all()
  end
  if is_debug and not failure then
    self:log_event("done")
  end
end

---What user code raised, or nil.
function Execution:perform()
  local ran, failure = guard(self.through_middlewares, seen, self)
  return not ran and (failure or { value = "error in error handling" }) or nil
end

function Execution:through_middlewares()
  local chain = settings.server_middlewares
  if #chain == 0 then
    return self:core()
  end
  return middlewares.call(chain, self.worker, self:batch(), function()
    return self:core()
  end)
end

---`return nil, err` (false, err), the way of Lua's libraries, is a failure as error() is one.
function Execution:core()
  local perform = self.worker.perform
  local result, err = perform(self.payloads_by_id, takes_batch(perform) and self:batch() or nil)
  if not result and err ~= nil then
    error(err, 0)
  end
  return result, err
end

function Execution:batch()
  if not self.made_batch then
    self.made_batch = batches.new(self.worker, self.delivery, self.payloads_by_id, self.ids, self:places_by_id(), function(place)
      return self:row(place)
    end)
  end
  return self.made_batch
end

function Execution:has_outcomes()
  return self.made_batch ~= nil and batches.has_outcomes(self.made_batch)
end

function Execution:places_by_id()
  if not self.places then
    self.places = {}
    for place, id in ipairs(self.ids) do
      self.places[id] = place
    end
  end
  return self.places
end

-- ---- payloads

---False where the codec is another, or some payload cannot be read.
function Execution:read_json()
  self.codec = self.worker:payload_codec()
  if self.codec ~= codec.json then
    return false
  end
  self.payloads_by_id, self.ids = self.delivery:payloads_by_id()
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
  self.delivery:reject(place, broken, reason)
  log.error("dead", ("%d payloads cannot be read: %s"):format(#broken, reason), { q = self.worker.queue_name, id = row.id })
end

function Execution:row(place)
  self.rows = self.rows or {}
  local row = self.rows[place]
  if not row then
    local id, fence, retry_count, perform_in, err, payloads = self.delivery:job(place)
    row = { id = id, fence = fence, retry_count = retry_count, perform_in = perform_in, error = err, payloads = payloads }
    self.rows[place] = row
  end
  return row
end

-- ---- outcomes

---The outcome of every id; without one of its own it shares the call's.
function Execution:conclude(failure)
  local places = self:places_by_id()
  for _, id in ipairs(self.ids) do
    local outcome = self.made_batch and batches.outcome(self.made_batch, id) or failure
    if outcome == nil or outcome == batches.DONE then
      self.delivery:done(places[id])
    else
      self:fail(places[id], outcome)
    end
  end
end

---failure: {value, place, traceback}, or a text that no hook formats.
function Execution:fail(place, failure)
  local row = self:row(place)
  local count = row.retry_count + 1
  self.delivery:fail(place, self:error_text(failure), self:retry_in(count))
  local text = type(failure) == "string" and failure or described(failure)
  local elapsed = self.started and self:elapsed()
  log.warn("fail", text, { q = self.worker.queue_name, id = row.id, n = count, elapsed = elapsed or nil })
  if type(failure) == "table" and failure.traceback then
    log.debug("traceback", failure.traceback:gsub("^%s+", ""), { q = self.worker.queue_name, id = row.id })
  end
end

function Execution:error_text(failure)
  local text = failure
  if type(failure) == "table" then
    text = self:hook("format_error", nil, settings.format_error, failure.value)
    if type(text) ~= "string" or text == "" then
      text = described(failure)
    end
  end
  local stored = self:hook("dump_error", text, settings.dump_error, text)
  return type(stored) == "string" and stored or text
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
    self:fail(place, text or WORKER_DIED)
  end
end

function Execution:exhausted()
  local jobs = {}
  for place = 1, self.delivery:size() do
    local job = self:exhausted_job(self:row(place))
    log.error("dead", job.error, { q = self.worker.queue_name, id = job.id, n = #job.payloads })
    jobs[place] = job
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
  return { id = row.id, payloads = payloads, error = err }
end

-- ---- the log

function Execution:elapsed()
  return (native.now_ms() - self.started) / 1000
end

function Execution:log_event(event)
  log.debug(event, nil, { q = self.worker.queue_name, id = self.ids[1], n = #self.ids, elapsed = self:elapsed() })
end

return execution
