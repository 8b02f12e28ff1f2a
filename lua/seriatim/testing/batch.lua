-- A batch for a test that calls perform itself. It remembers what perform reported.

local jobs = require "seriatim.client.jobs"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local batches = require "seriatim.server.batch"
local given = require "seriatim.testing.given"

local FENCE = 1

---Stands in for the execution that a server's batch is of.
local Stub = {}
Stub.__index = Stub

function Stub:list()
  return self.delivery:ids()
end

function Stub:places_by_id()
  local places = {}
  for place, id in ipairs(self:list()) do
    places[id] = place
  end
  return places
end

function Stub:row(place)
  local row = self.delivery.rows[place]
  return { id = row[1], fence = row[2], retry_count = row[3], perform_in = row[4], error = row[5], payloads = row[6] }
end

function Stub:hurry() end

function Stub:flush()
  return true
end

local stubs = setmetatable({}, { __mode = "k" }) -- by batch

local batch = {}

local function by_bytes(values)
  local found = {}
  for id, value in pairs(values or {}) do
    found[jobs.id_bytes(id)] = value
  end
  return found
end

local function row_of(id, codec, payloads, options)
  local scores, contexts = by_bytes(options.scores)[id] or {}, by_bytes(options.contexts)[id] or {}
  local rows = {}
  for at, payload in ipairs(validate.list(("payloads_by_id[%s]"):format(validate.shown(id)), payloads)) do
    local context = contexts[at] and next(contexts[at]) ~= nil and errors.guard(native.dump, contexts[at], "context") or nil
    rows[at] = { codec.dump(payload, "payload"), scores[at] or at, context }
  end
  return { id, FENCE, options.retry_count or -1, 0, options.error, rows, #rows }
end

---@param worker seriatim.Worker
---@param payloads_by_id table<seriatim.Id, any[]>
---@param options { retry_count: integer?, error: string?, scores: table?, contexts: table? }
---@return seriatim.Batch
function batch.new(worker, payloads_by_id, options)
  local codec, rows, read, reported = worker:payload_codec(), {}, {}, {}
  for id, payloads in pairs(by_bytes(payloads_by_id)) do
    local row = row_of(id, codec, payloads, options)
    rows[#rows + 1], read[id] = row, {}
    for at, payload in ipairs(row[6]) do
      read[id][at] = codec.load(payload[1])
    end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  local delivery = given.new("run", 0, rows, function(row, outcome)
    reported[row[1]] = math.max(reported[row[1]] or 0, outcome[4])
  end, function() end)
  local stub = setmetatable({ worker = worker, delivery = delivery, payloads_by_id = read, checkpoints = reported }, Stub)
  delivery.extend = function(_, _, seconds) stub.extended = seconds end
  local made = batches.new(stub)
  stubs[made] = stub
  return made
end

---What perform reported. failed: the errors given to fail; snoozed: the seconds given to snooze; checkpoints: the largest counts: each by
---id. finished: the ids given to done, sorted. extended: the seconds of extend.
---@param made seriatim.Batch
---@return { failed: table, finished: string[], snoozed: table, checkpoints: table, extended: number? }
function batch.reported(made)
  local stub = stubs[made] or validate.refuse("batch", "a batch of seriatim.testing.batch", made)
  local found = { failed = {}, finished = {}, snoozed = {}, checkpoints = stub.checkpoints, extended = stub.extended }
  for id, outcome in pairs(stub.outcomes or {}) do
    if outcome == batches.DONE then
      table.insert(found.finished, id)
    elseif outcome.snooze then
      found.snoozed[id] = outcome.snooze
    else
      found.failed[id] = outcome.value
    end
  end
  table.sort(found.finished)
  return found
end

return batch
