-- Stands in for a delivery of the runner in the test modes: claimed ids whose outcomes are collected until it is settled.

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local unpack = table.unpack or unpack

local RELEASE = { "release", 0 }

---As seriatim.Delivery, but for the time to run, which queues in memory do not have.
---@class seriatim.testing.Given
local Given = {}
Given.__index = Given

local given = {}

---settle: gets each outcome, {kind, seconds, text, which} as fake:settle takes them: those of the ids when this is settled, checkpoints
---at once. failed: gets what each id failed with.
---@param kind "run"|"exhausted"
---@param shard integer
---@param rows table[]  as fake:take gives them
---@param settle fun(row: table, outcome: table)
---@param failed fun(raised: any)
---@return seriatim.testing.Given
function given.new(kind, shard, rows, settle, failed)
  return setmetatable({
    kind_name = kind, shard_number = shard, rows = rows, settle_with = settle, failed_with = failed, outcomes = {}, begun = native.now_ms(),
  }, Given)
end

---The row at this place; raises after the end, as the batch of a server's run does.
local function row_of(self, place)
  if self.is_settled then
    error(errors.new("CLOSED", "the delivery is settled"), 0)
  end
  return self.rows[place]
end

local function note(self, place, outcome)
  row_of(self, place)
  self.outcomes[place] = outcome
  return true
end

function Given:kind()
  return self.kind_name, 1
end

function Given:worker()
  return 1
end

function Given:shard()
  return self.shard_number
end

function Given:size()
  return #self.rows
end

---id, fence, retry_count, perform_in, error, {{payload, score, context}}, payload_total
function Given:job(place)
  return unpack(row_of(self, place), 1, 7)
end

function Given:ids()
  local ids = {}
  for place, row in ipairs(self.rows) do
    ids[place] = row[1]
  end
  return ids
end

---nil: one of them cannot be read.
function Given:payloads_by_id()
  local payloads_by_id = {}
  for _, row in ipairs(self.rows) do
    local payloads = {}
    for at, payload in ipairs(row[6]) do
      local value = native.load(payload[1])
      if value == nil then
        return nil
      end
      payloads[at] = value
    end
    payloads_by_id[row[1]] = payloads
  end
  return payloads_by_id
end

function Given:done(place)
  return note(self, place, { "done", 0 })
end

function Given:done_all()
  for place in ipairs(self.rows) do
    self:done(place)
  end
  return true
end

function Given:fail(place, text, retry_in)
  return note(self, place, { "fail", retry_in, text })
end

function Given:release(place)
  return note(self, place, RELEASE)
end

function Given:reject(place, places, reason)
  return note(self, place, { "reject", 0, reason, places })
end

function Given:snooze(place, seconds, payload)
  return note(self, place, { "snooze", seconds, payload })
end

function Given:extend(place)
  return row_of(self, place) ~= nil
end

function Given:checkpoint(place, count)
  local row = row_of(self, place)
  if count > #row[6] then
    return nil, "INVALID", ("checkpoint of %d payloads: the id has %d in this batch"):format(count, #row[6])
  end
  self.settle_with(row, { "checkpoint", 0, nil, count })
  return true
end

function Given:flush()
  return true
end

---What an id failed with, as it was raised.
function Given:note_failure(raised)
  self.failed_with(raised)
end

---The test sees it; it needs no line in a log.
function Given:failure()
  return nil
end

function Given:settle()
  for place, row in ipairs(self.rows) do
    self.settle_with(row, self.outcomes[place] or RELEASE)
  end
  self.is_settled = true
  return true
end

function Given:elapsed()
  return (native.now_ms() - self.begun) / 1000
end

return given
