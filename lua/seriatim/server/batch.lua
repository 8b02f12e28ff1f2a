-- The ids and payloads of one call of perform.
local inspect = require "seriatim.client.inspect"
local jobs = require "seriatim.client.jobs"
local stored_error = require "seriatim.client.stored_error"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"

local DONE = {}
local LONGEST_SNOOZE = 100 * 365.25 * 86400 -- seconds
local STATE = {} -- the key of what is not for the worker; no id can be equal to it

---Reads as the map id -> payloads (`batch[id]`), and takes the outcome of single ids; an id without one shares the
---outcome of the call. Ids are texts; an integer stands for its text. Where an id has the name of a field or method,
---`batch.payloads_by_id[id]` tells them apart.
---@class seriatim.Batch
---@field worker seriatim.Worker
---@field shard integer the shard of the queue that all ids lie in, from 0
---@field ids string[] in the order of the delivery
---@field payloads_by_id table<string, any[]> each id's payloads, by score, then by arrival
local methods = {}
local meta = { __name = "seriatim.Batch" }

-- ---- made by an execution

local batches = { DONE = DONE }

---Of an execution, which keeps the outcomes.
---@return seriatim.Batch
function batches.new(execution)
  local ids = {}
  for place, id in ipairs(execution:list()) do
    ids[place] = id -- a list of its own: perform may sort or empty it, and the execution knows the places of outcomes by its list
  end
  local fields = { worker = execution.worker, shard = execution.delivery:shard(), ids = ids }
  fields.payloads_by_id, fields[STATE] = execution.payloads_by_id, execution
  return setmetatable(fields, meta)
end

-- ---- ids

---The id as a text, and its place. It need not be in payloads_by_id, which perform may have changed.
local function known(batch, id)
  local text = jobs.id_bytes(id)
  local place = rawget(batch, STATE):places_by_id()[text]
  if place == nil then
    errors.misuse("the batch holds no id " .. validate.shown(text))
  end
  return text, place
end

local function row_of(batch, id)
  local _, place = known(batch, id)
  return rawget(batch, STATE):row(place)
end

---{value = error}, {snooze = seconds, payload = bytes or nil}, or DONE.
local function report(batch, id, outcome)
  local execution, text = rawget(batch, STATE), known(batch, id)
  execution.outcomes = execution.outcomes or {}
  execution.outcomes[text] = outcome
end

---What became of the id by itself, {value = error}, {snooze = seconds} or DONE; nil: it shares the call's outcome. For middlewares that
---watch.
function batches.outcome(batch, id)
  return (rawget(batch, STATE).outcomes or {})[known(batch, id)]
end

function meta.__index(batch, key)
  local method = methods[key]
  if method ~= nil then
    return method
  end
  local id = type(key) == "string" and key or validate.digits(key)
  return id and rawget(batch, "payloads_by_id")[id]
end

function meta.__pairs(batch)
  local payloads_by_id, place = batch.payloads_by_id, 0
  return function()
    place = place + 1
    local id = batch.ids[place]
    return id, id and payloads_by_id[id]
  end
end

---The payloads may be long, so they are left out.
function meta.__tostring(batch)
  local shown = { queue = rawget(batch, "worker").queue_name, shard = rawget(batch, "shard"), ids = rawget(batch, "ids") }
  return inspect.line(meta.__name, { "queue", "shard", "ids" }, shown)
end

function meta.__len(batch)
  return #rawget(batch, "ids")
end

-- ---- for the worker

---Records that the id failed with this error, a text or any error value. It does not end perform; other ids are not affected.
---Raises misuse when the batch does not hold the id.
function methods:fail(id, err)
  report(self, id, { value = err })
end

---Records that the id is done, even if perform raises later. Raises misuse when the batch does not hold the id.
function methods:done(id)
  report(self, id, DONE)
end

---The first `count` payloads of the id, in the order of the batch, are done, whatever becomes of the rest: a failure, a crash or a
---snooze brings back only what is left, with retry_count -1. The id runs on. Sent at once and not waited for: until Redis has
---confirmed it (`batch:flush` waits for that) a crash may bring these payloads again. A smaller count than before changes nothing. The
---last payload needs no checkpoint: the end of the run is one.
---@param id seriatim.Id
---@param count integer  at most the payloads that the id has in this batch
---@return boolean? sent
---@return seriatim.Error? err
function methods:checkpoint(id, count)
  local execution = rawget(self, STATE)
  local _, place = known(self, id)
  if validate.integer("count", count, 0, 2147483647) == 0 then
    return true
  end
  local sent, err = errors.outcome(execution.delivery:checkpoint(place, count))
  if sent then
    execution.checkpointed = execution.checkpointed or {}
    execution.checkpointed[place] = true
  end
  execution:hurry()
  return sent, err
end

---Waits until Redis has confirmed all checkpoints of the batch. nil and an error of the kind STALE: the run of an id is another's
---now, or the end of a stop has handed it back, and what it still does is on its own.
---@return boolean? flushed
---@return seriatim.Error? err
function methods:flush()
  return rawget(self, STATE):flush()
end

---The id has neither ended nor failed when the call ends: what is left of it waits for `seconds`, as after a failure, but
---nothing is counted, and retry_count stays. Raises misuse when the batch does not hold the id, and for a payload of more than 1 MiB
---as it is stored.
---@param id seriatim.Id
---@param seconds number
---@param options { payload: any }?  payload: what the first payload that is left becomes, as perform_async takes it; it keeps its
---place in the order. Without one it stays as it is
function methods:snooze(id, seconds, options)
  validate.seconds("seconds", seconds, 0, LONGEST_SNOOZE)
  for key in pairs(options or {}) do
    if key ~= "payload" then
      errors.misuse(("snooze: unknown option %s; known is payload"):format(validate.shown(key)))
    end
  end
  local payload = options and options.payload
  if payload ~= nil then
    payload = validate.payload_bytes("payload", rawget(self, "worker"):payload_codec().dump(payload, "payload"))
  end
  report(self, id, { snooze = seconds, payload = payload })
end

---Moves the end of the time to run of every id of the batch to `seconds` (0 to 31,536,000) from now. No effect without the option
---`ttr`.
function methods:extend(seconds)
  validate.seconds("seconds", seconds, 0, 31536000)
  local execution = rawget(self, STATE)
  for _, place in pairs(execution:places_by_id()) do
    execution.delivery:extend(place, seconds)
  end
end

---The fencing token: greater than that of every earlier claim of the id. A store that remembers the greatest one can reject writes
---of an older run.
---@return integer
function methods:fence(id)
  return row_of(self, id).fence
end

---The score of each payload, in the order of the payloads.
---@return number[]
function methods:scores(id)
  local scores = {}
  for place, payload in ipairs(row_of(self, id).payloads) do
    scores[place] = payload[2]
  end
  return scores
end

---Number of retries so far: -1 in the first run, 0 in the first retry.
---@return integer
function methods:retry_count(id)
  return row_of(self, id).retry_count
end

---The context of each payload, in the order of the payloads; an empty table for one without.
---@return table<string, string>[]
function methods:contexts(id)
  local contexts = {}
  for place, payload in ipairs(row_of(self, id).payloads) do
    contexts[place] = payload[3] and native.load(payload[3]) or {}
  end
  return contexts
end

---The id's last error, through load_error.
---@return string?
function methods:error(id)
  local stored = row_of(self, id).error
  return stored and stored_error.loaded(stored)
end

return batches
