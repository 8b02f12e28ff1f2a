-- The test modes of an application: Redis is not used.
--
--     local testing = require "seriatim.testing"
--
--     before_each(function() testing.set_mode "fake" end)
--     after_each(function() testing.set_mode "disable" end)
--
--     it("pushes and runs", function()
--       pay(7)
--       assert.equal("7", testing.pushed(OrderWorker)[1].id)
--       testing.drain(OrderWorker)
--     end)
--
-- In the mode fake, perform_async keeps the jobs in memory, by the rules of the queue, until the test runs them, in this Lua state. In
-- the mode inline it runs them at once: their times are ignored, and what perform raises reaches the caller. A mode is of the Lua state.
-- Calls that need Redis raise misuse.

local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local batches = require "seriatim.testing.batch"
local memories = require "seriatim.testing.memory"
local worker = require "seriatim.worker"

local testing = {}

local MODES = { "fake", "inline", "disable" }

---What stands in for Redis: the mode of the innermost function, or else of set_mode. false: nothing does.
local innermost, everywhere

---The time of pushes, Unix seconds. A test may replace it.
---@return number
function testing.now()
  return native.time()
end

local function now()
  return testing.now()
end

local function stand_in_of(mode)
  return mode ~= "disable" and memories.new(now, mode == "inline")
end

function pool.test_mode()
  if innermost ~= nil then
    return innermost
  end
  return everywhere
end

local function finish(outer, ok, ...)
  innermost = outer
  if not ok then
    error((...), 0)
  end
  return ...
end

local function within(mode, body, ...)
  validate.callable(mode, body)
  local outer = innermost
  innermost = stand_in_of(mode)
  return finish(outer, pcall(body, ...))
end

-- ---- modes

---Calls body(...): what it pushes is kept in memory until perform_one or drain runs it. It has queues of its own, which end with it.
---Raises what it raises.
---@return any ...  what it returns
function testing.fake(body, ...)
  return within("fake", body, ...)
end

---Calls body(...): what it pushes runs at once.
---@return any ...
function testing.inline(body, ...)
  return within("inline", body, ...)
end

---Calls body(...), which uses Redis, inside of another mode.
---@return any ...
function testing.disable(body, ...)
  return within("disable", body, ...)
end

---The mode until the next call, with queues that are empty. Raises misuse inside of a function of fake, inline or disable.
---@param mode "fake"|"inline"|"disable"
function testing.set_mode(mode)
  validate.word("mode", mode, MODES)
  if innermost ~= nil then
    errors.misuse "set_mode is not for the inside of a function of fake, inline or disable: use another one of these"
  end
  everywhere = stand_in_of(mode)
end

-- ---- what was pushed

---The worker that was given; nil: none was.
local function owner_of(given)
  if given ~= nil and not worker.is(given) then
    validate.refuse("worker", "a seriatim.worker", given)
  end
  return given
end

local function one(given)
  return owner_of(given) or validate.refuse("worker", "a seriatim.worker", given)
end

local function stand_in()
  return pool.test_mode() or errors.misuse "no mode is on: call testing.set_mode, testing.fake or testing.inline first"
end

---The jobs that were pushed in this mode and not refused, in their order, also those that have run.
---@param of seriatim.Worker?  nil: of all workers
---@return seriatim.testing.Pushed[]
function testing.pushed(of)
  return stand_in():pushed(owner_of(of))
end

---Forgets all jobs, dead ones and those that were pushed, too.
---@param of seriatim.Worker?  nil: of all workers
function testing.clear(of)
  if owner_of(of) then
    stand_in():clear(of)
  else
    stand_in():clear_all()
  end
end

-- ---- in the mode fake: each raises misuse in another mode

local function memory()
  local found = pool.test_mode()
  if not found or found.is_inline then
    errors.misuse "the jobs are not kept in memory: call testing.set_mode 'fake' or testing.fake first"
  end
  return found
end

---The payloads that wait, by time.
---@param of seriatim.Worker
---@return seriatim.testing.Waiting[]
function testing.jobs(of)
  return memory():jobs(one(of), false)
end

---Those in the morgue.
---@param of seriatim.Worker
---@return seriatim.testing.Waiting[]
function testing.dead_jobs(of)
  return memory():jobs(one(of), true)
end

---Runs the next batch as if it were due. Raises what perform raised, or what it returned behind nil, after it was recorded.
---@param of seriatim.Worker
---@return boolean  false: there is none
function testing.perform_one(of)
  return memory():run_next(one(of), nil, true)
end

---Runs all that is due by `at` (Unix seconds; nil: all that will ever be due), in order of time: retries, scheduled payloads and what
---perform pushes meanwhile, too. What perform raises, or returns behind nil, is raised after it was recorded; with raise = false it is
---only recorded, and the retries run, until the job has succeeded or is dead.
---@param of seriatim.Worker?  nil: all workers that were pushed to
---@param options { at: number?, raise: boolean? }?
---@return integer  the number of batches
function testing.drain(of, options)
  options = validate.options(options, { "at", "raise" })
  local at = options.at
  if at ~= nil and not validate.number(at) then
    validate.refuse("at", "a number of Unix seconds", at)
  end
  local raises = options.raise == nil or validate.flag("raise", options.raise)
  return memory():drain(owner_of(of), at, raises)
end

-- ---- a batch

---A batch to call perform with: `OrderWorker.perform(batch.payloads_by_id, batch)`. Payloads are written and read by the worker's codec.
---retry_count and error are of all ids; scores and contexts are lists for the payloads, by id; missing scores are 1, 2, ...
---@param of seriatim.Worker
---@param payloads_by_id table<seriatim.Id, any[]>
---@param options { retry_count: integer?, error: string?, scores: table?, contexts: table? }?
---@return seriatim.Batch
function testing.batch(of, payloads_by_id, options)
  return batches.new(one(of), payloads_by_id, validate.options(options, { "retry_count", "error", "scores", "contexts" }))
end

testing.reported = batches.reported

return testing
