-- Pull consumers: takes one due id of some queues, without a server, and reports the result of its delivery.

local codec = require "seriatim.client.codec"
local inspect = require "seriatim.client.inspect"
local pool = require "seriatim.client.pool"
local stored_error = require "seriatim.client.stored_error"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local settings = require "seriatim.settings"
local workers = require "seriatim.worker"

local MOST_QUEUES = 1000
local MOST_PAYLOADS = 1000
local MOST_WEIGHT = 1000000
local LONGEST_WAIT = 60 -- seconds
local SHORTEST_RUN, LONGEST_RUN = 0.001, 31536000 -- seconds
local LONGEST_DELAY = 100 * 365.25 * 86400 -- seconds
local MOST_REJECTED = 250 -- payloads of one report
local UNREADABLE = 100 -- deliveries: after as many of which nothing can be given, a pop whose wait is over ends
local BACK_OFF = -1 -- of retry_in: the default back-off
local OPTIONS = { "wait", "ttr", "max", "weights" }
local STATE = {} -- the key of what is not for the user

local check_name
for _, setting in ipairs(native.worker_settings()) do
  if setting.name == "queue_name" then
    check_name = validate.of_setting(setting)
  end
end

local pops = {}

-- ---- deliveries

---One id that was popped, with the payloads that are to be processed now.
---@class seriatim.PoppedDelivery
---@field id string
---@field payloads any[]  by score, then by arrival; one at least
---@field queue string
---@field fence integer  greater than that of every earlier run of the id
---@field deliveries integer  the pops of the id, this one included, since it was last acknowledged, had a checkpoint or was buried
---@field scores number[]  one for each payload
---@field contexts table<string, string>[]  one for each payload; an empty table for a payload without one
---@field retry_count integer  -1 if the id has not failed since it was last done; 0 after its first failure
---@field error string?  of the last failure, through load_error; nil: retry_count is -1
---@field more boolean  does the id have more payloads than this delivery? A later delivery has them
---@field token string?  names the delivery in any process; nil: the pop had ttr = 0, so the delivery has ended
local methods = {}
local Delivery = inspect.class("seriatim.PoppedDelivery", { "queue", "id", "fence", "deliveries" })
Delivery.__index = methods

---Tells Redis. Each method of a delivery returns true; or nil and a seriatim.Error, whose kind is STALE if the delivery is not the
---caller's any more: its time is over, it has ended, or somebody else has the id.
---@param token string
---@param payloads integer|number[]|nil  how many of the first ones (checkpoint), or their stamps (reject)
---@return boolean?
---@return seriatim.Error? err
local function report(token, kind, seconds, text, payloads)
  return pool.ask(function(connection)
    return connection:call("popped", token, kind, seconds, text, payloads, nil)
  end)
end

---Raises where a method was called with a dot in place of the colon.
local function must_be_one(delivery, name)
  if getmetatable(delivery) ~= Delivery then
    errors.misuse(("%s needs a colon, as in delivery:%s(...), not %s"):format(name, name, validate.kind(delivery)))
  end
end

---What is not for the user; raises if the delivery had ended when it was popped.
local function state_of(delivery, name)
  must_be_one(delivery, name)
  if not delivery.token then
    local text = "%s: the delivery of %s was popped with ttr = 0, so it has ended already"
    errors.misuse(text:format(name, validate.shown(delivery.id)))
  end
  return delivery[STATE]
end

---The delivered payloads are done. Nothing happens if the pop had ttr = 0, which has ended them already.
---@return boolean?
---@return seriatim.Error? err
function methods:ack()
  must_be_one(self, "ack")
  if not self.token then
    return true
  end
  return report(self.token, "ack")
end

local function text_of(raised, queue)
  local made, text = pcall(settings.format_error, raised)
  if not made then
    log.error("hook", "format_error raised " .. log.describe(text), { q = queue })
  end
  return made and type(text) == "string" and text ~= "" and text or log.describe(raised)
end

---The run failed: retry_count + 1, and the id is due again after the back-off. Its limit acts as for a worker.
---@param ... any  a text or an error value, also nil, which pcall gives of error(); then
---{ retry_in: number? }?  seconds; nil: the default back-off
---@return boolean?
---@return seriatim.Error? err
function methods:fail(...)
  state_of(self, "fail")
  local raised, options = ...
  if select("#", ...) == 0 then
    validate.refuse("error", "a text or an error value", raised)
  end
  local retry_in = validate.options(options, { "retry_in" }).retry_in
  if retry_in ~= nil then
    validate.seconds("retry_in", retry_in, 0, LONGEST_DELAY)
  end
  return report(self.token, "fail", retry_in or BACK_OFF, stored_error.of(text_of(raised, self.queue), self.queue))
end

---Hands the id back, due as it was. No failure is counted.
---@return boolean?
---@return seriatim.Error? err
function methods:release()
  state_of(self, "release")
  return report(self.token, "release")
end

---The delivery must be acknowledged within `seconds` (0 to 31,536,000) from now.
---@param seconds number
---@return boolean?
---@return seriatim.Error? err
function methods:extend(seconds)
  state_of(self, "extend")
  return report(self.token, "extend", validate.seconds("seconds", seconds, 0, LONGEST_RUN))
end

---Hands the id back, due after `seconds`. No failure is counted.
---@param seconds number  0 to 100 years
---@param options { payload: any }?  payload: what the first payload that is left becomes; it keeps its place in the order
---@return boolean?
---@return seriatim.Error? err
function methods:snooze(seconds, options)
  local state = state_of(self, "snooze")
  validate.seconds("seconds", seconds, 0, LONGEST_DELAY)
  local payload = validate.options(options, { "payload" }).payload
  if payload ~= nil then
    payload = validate.payload_bytes("payload", state.codec.dump(payload, "payload"))
  end
  return report(self.token, "snooze", seconds, payload)
end

---The first `count` payloads are done, whatever becomes of the others. The delivery goes on.
---@param count integer  at most the number of payloads
---@return boolean?
---@return seriatim.Error? err
function methods:checkpoint(count)
  local state = state_of(self, "checkpoint")
  if validate.integer("count", count, 0, state.count) == 0 then
    return true
  end
  return report(self.token, "checkpoint", nil, nil, count)
end

---@param popped table  of the C module
---@param rows table[]  its payloads that could be read
---@param values any[]  what these say
local function delivery_of(popped, queue, rows, values)
  local made = {
    id = popped.id, payloads = values, queue = queue.name, fence = popped.fence, deliveries = popped.deliveries,
    retry_count = popped.retry_count, error = popped.error and stored_error.loaded(popped.error), more = popped.more,
    scores = {}, contexts = {}, token = popped.token, [STATE] = { count = #rows, codec = queue.codec },
  }
  for place, row in ipairs(rows) do
    made.scores[place] = row[2]
    made.contexts[place] = row[4] and native.load(row[4]) or {}
  end
  return setmetatable(made, Delivery)
end

-- ---- payloads that cannot be read

---@return table[] rows  those that can be read
---@return any[] values  what they say
---@return table[] broken  those that cannot
---@return string? reason  of the first one
local function decode(popped, queue)
  local rows, values, broken, reason = {}, {}, {}, nil
  for _, row in ipairs(popped.payloads) do
    local value, why = queue.codec.load(row[1])
    if value == nil then
      reason = reason or "undecodable payload: " .. log.describe(why)
      broken[#broken + 1] = row
    else
      rows[#rows + 1], values[#values + 1] = row, value
    end
  end
  return rows, values, broken, reason
end

---Sends them to the morgue; the id's other payloads are due as they were.
---@return boolean? rejected
---@return seriatim.Error? err
local function reject(popped, queue, broken, reason)
  local stamps = {}
  for place = 1, math.min(#broken, MOST_REJECTED) do
    stamps[place] = broken[place][3]
  end
  log.error("dead", ("%d payloads cannot be read: %s"):format(#stamps, reason), { q = queue.name, id = popped.id })
  local rejected, err = report(popped.token, "reject", nil, stored_error.of(reason, queue.name), stamps)
  if not rejected and not errors.is(err, "STALE") then
    return nil, err
  end
  return true
end

---A pop with ttr = 0 has ended them already, so only the log has them.
local function log_lost(popped, queue, broken, reason)
  local text = "%d payloads cannot be read, and the pop with ttr = 0 has ended them: %s; the first is %s"
  local first = log.brief(validate.shown(broken[1][1]))
  log.error("dead", text:format(#broken, reason, first), { q = queue.name, id = popped.id })
end

---@return seriatim.PoppedDelivery|false|nil  false: none of it can be delivered; pop again
---@return seriatim.Error? err
local function read(popped, queue)
  local rows, values, broken, reason = decode(popped, queue)
  if #broken > 0 and popped.token then
    local rejected, err = reject(popped, queue, broken, reason)
    return rejected and false, err
  elseif #broken > 0 then
    log_lost(popped, queue, broken, reason)
  end
  return #rows > 0 and delivery_of(popped, queue, rows, values)
end

-- ---- pop

---The codec of the worker that was defined last for this queue here; without one, the module's.
local function codec_of(name)
  for place = #workers.all, 1, -1 do
    local worker = workers.all[place].worker
    if worker.queue_name == name then
      return worker:payload_codec()
    end
  end
  return codec.of(nil)
end

---@return { name: string, codec: seriatim.Codec }
local function queue_of(given, field)
  if workers.is(given) then
    return { name = given.queue_name, codec = given:payload_codec() }
  elseif type(given) ~= "string" then
    validate.refuse(field, "the name of a queue or a worker", given)
  end
  return { name = check_name(field, given), codec = codec_of(given) }
end

local function queues_of(given)
  local list = { given }
  if type(given) ~= "string" and not workers.is(given) then
    list = validate.list("queues", given, "a list of names and workers")
  end
  if #list < 1 or #list > MOST_QUEUES then
    errors.misuse(("queues must be 1 to %d names or workers, not %d"):format(MOST_QUEUES, #list))
  end
  local queues, seen = {}, {}
  for place, one in ipairs(list) do
    local queue = queue_of(one, ("queues[%d]"):format(place))
    if seen[queue.name] then
      errors.misuse(("queues: %s is named twice"):format(validate.shown(queue.name)))
    end
    queues[place], seen[queue.name] = queue, true
  end
  return queues, seen
end

---A list of integers, one for each queue.
local function weights_of(given, queues, names)
  if given == nil then
    return nil
  elseif type(given) ~= "table" then
    validate.refuse("weights", "a table from queue to weight", given)
  end
  local by_name, weights = {}, {}
  for queue, weight in pairs(given) do
    local name = workers.is(queue) and queue.queue_name or queue
    if not names[name] then
      errors.misuse(("weights: %s is none of the queues"):format(validate.shown(name)))
    end
    if by_name[name] ~= nil then
      errors.misuse(("weights: %s is named twice"):format(validate.shown(name)))
    end
    by_name[name] = weight
  end
  for place, queue in ipairs(queues) do
    weights[place] = validate.integer(("weights[%s]"):format(validate.shown(queue.name)), by_name[queue.name], 1, MOST_WEIGHT)
  end
  return weights
end

local function ttr_of(given)
  if type(given) == "number" and (given == 0 or given >= SHORTEST_RUN and given <= LONGEST_RUN) then
    return given
  end
  return validate.refuse("ttr", ("0 or a number of seconds from %g to %d"):format(SHORTEST_RUN, LONGEST_RUN), given)
end

---@return table|false|nil popped  of the C module; false: no id is due
---@return any  the queue of what was popped, or a seriatim.Error
local function ask(queues, weights, wait, ttr, most)
  return pool.ask(function(connection)
    local numbers, by_number = {}, {}
    for place, queue in ipairs(queues) do
      numbers[place] = connection:number_of(queue.name)
      by_number[numbers[place]] = queue
    end
    local popped, err = connection:call("pop", numbers, weights, wait, ttr, most, nil)
    return popped, popped and by_number[popped.queue] or err
  end)
end

---@class seriatim.PopOptions
---@field wait number?  2; seconds to wait if no id is due, 0 to 60
---@field ttr number?  30; seconds within which the delivery must be acknowledged, else it has failed and the id is due again at once.
---0: the id is taken and ended at once, so it is lost if this process dies (at most once)
---@field max integer?  1000; the most payloads of a delivery, 1 to 1000
---@field weights table<string|seriatim.Worker, integer>?  of each queue, 1 to 1,000,000: the queues take turns by their weights, and an
---empty one loses its turn. nil: an id of the first queue that has one

---Takes an id that is due from the first queue that has one.
---Nobody else runs this id until the delivery has ended or its time is over.
---Payloads that cannot be read go to the morgue. Raises misuse before anything is sent.
---@param queues string|seriatim.Worker|(string|seriatim.Worker)[]  a queue or up to 1000, no queue twice
---@param options seriatim.PopOptions?
---@return seriatim.PoppedDelivery?  nil: no id is due, or the wait ended after 100 deliveries of which nothing could be read
---@return seriatim.Error? err
function pops.pop(queues, options)
  local list, names = queues_of(queues)
  local given = validate.options(options, OPTIONS)
  local weights = weights_of(given.weights, list, names)
  local wait = validate.seconds("wait", given.wait == nil and 2 or given.wait, 0, LONGEST_WAIT)
  local ttr = ttr_of(given.ttr == nil and 30 or given.ttr)
  local most = validate.integer("max", given.max == nil and MOST_PAYLOADS or given.max, 1, MOST_PAYLOADS)
  local deadline = native.now_ms() + wait * 1000
  local rounds = 0
  repeat
    local popped, queue = ask(list, weights, math.max(deadline - native.now_ms(), 0) / 1000, ttr, most)
    if not popped then
      return nil, queue
    end
    local delivery, err = read(popped, queue)
    if delivery or err then
      return delivery or nil, err
    end
    rounds = rounds + 1
  until rounds >= UNREADABLE and native.now_ms() >= deadline
end

---The delivery that has this token, in any process: to report its result. It has no payloads here, deliveries is 0, retry_count -1 and
---more false, because the token says only queue, id and fence. Redis is not asked. Raises misuse.
---@param token string  of a delivery
---@return seriatim.PoppedDelivery
function pops.delivery(token)
  if type(token) ~= "string" then
    validate.refuse("token", "a string", token)
  end
  local parts = native.token_parts(token)
  if not parts then
    errors.misuse("token: the text is no token of a delivery")
  end
  local made = delivery_of({
    id = parts.id, fence = parts.fence, deliveries = 0, retry_count = -1, more = false, token = token,
  }, queue_of(parts.queue, "token"), {}, {})
  made[STATE].count = parts.payload_count
  return made
end

return pops
