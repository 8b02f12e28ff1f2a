-- What the workers of a scenario are: one a queue, recording its runs and taking turns by the run step's plan.

local Values = require "values"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local NOTHING = {}

-- ---- what a run step plans and sees

---@class spec.Watch
local Watch = {}
Watch.__index = Watch

---sleep: of a job. steps: runs nested ones.
function Watch.new(plan, sleep, steps)
  return setmetatable({ plan = plan, sleep = sleep, steps = steps, turns = {}, runs = {}, exhausted = {}, wrong = {} }, Watch)
end

local function seen(id, batch)
  return {
    id = id,
    payloads = batch.payloads_by_id[id],
    scores = batch:scores(id),
    retry_count = batch:retry_count(id),
    contexts = batch:contexts(id),
    fence = batch:fence(id),
  }
end

function Watch:turn(id)
  local turns = self.plan[id] or self.plan["*"] or NOTHING
  self.turns[id] = (self.turns[id] or 0) + 1
  return turns[math.min(self.turns[id], #turns)] or NOTHING
end

function Watch:begin(label, batch)
  local run, turns = { queue = label, jobs = {}, began = native.time() }, {}
  for place, id in ipairs(batch.ids) do
    run.jobs[place] = seen(id, batch)
    turns[place] = self:turn(id)
  end
  self.runs[#self.runs + 1] = run
  return run, turns
end

function Watch:told(jobs)
  for _, job in ipairs(jobs) do
    self.exhausted[#self.exhausted + 1] = job
  end
end

function Watch:ended()
  local count = 0
  for _, run in ipairs(self.runs) do
    count = count + (run.ended and 1 or 0)
  end
  return count
end

-- ---- the workers

local recorder = { Watch = Watch }

---@type spec.Watch  of the run step that goes on
recorder.watch = nil

local function checkpoint(batch, id, turn)
  if turn.too_many then
    assert(not pcall(batch.checkpoint, batch, id, turn.too_many), "the checkpoint is expected to be refused")
  end
  if turn.too_long then
    local options = { payload = ("x"):rep(turn.too_long) }
    assert(not pcall(batch.snooze, batch, id, 0, options), "the snooze is expected to be refused")
  end
  if turn.checkpoint then
    assert(batch:checkpoint(id, turn.checkpoint))
    assert(batch:flush())
  end
end

local function checkpoint_late(batch, id, turn)
  if turn.sent then
    assert(batch:checkpoint(id, turn.sent))
  end
  if turn.stale then
    assert(batch:checkpoint(id, turn.stale))
    local flushed, err = batch:flush()
    assert(flushed == nil and err.kind == "STALE", "STALE is expected")
  end
end

local function take(watch, batch, id, turn)
  checkpoint(batch, id, turn)
  if turn.steps then
    watch.steps(turn.steps)
  end
  if turn.extend then
    batch:extend(turn.extend)
  end
  if turn.sleep then
    watch.sleep(turn.sleep)
  end
  checkpoint_late(batch, id, turn)
end

local function report(batch, id, turn)
  if turn.snooze then
    batch:snooze(id, turn.snooze, turn.payload ~= nil and { payload = turn.payload } or nil)
  end
  if turn.fail then
    batch:fail(id, turn.fail)
  end
  if turn.done then
    batch:done(id)
  end
end

local function act(watch, batch, turns)
  for place, turn in ipairs(turns) do
    take(watch, batch, batch.ids[place], turn)
  end
  for place, turn in ipairs(turns) do
    report(batch, batch.ids[place], turn)
  end
end

---What a turn raises is noted, too: that the job fails shows nothing where Redis refuses the outcome of the run.
local function perform(watch, batch, turns)
  local acted, raised = pcall(act, watch, batch, turns)
  if not acted then
    watch.wrong[#watch.wrong + 1] = "a turn raised " .. tostring(raised)
    error(raised, 0)
  end
  for _, turn in ipairs(turns) do
    if turn.raise then
      error(turn.raise, 0)
    end
  end
end

local function recorded(label)
  return function(_, batch)
    local run, turns = recorder.watch:begin(label, batch)
    local performed, raised = pcall(perform, recorder.watch, batch, turns)
    run.ended = native.time()
    if not performed then
      error(raised, 0)
    end
  end
end

---settings: of a queue, as the files write them.
function recorder.worker(label, settings)
  local waits = settings.retry_in or { 60 }
  local options = {
    shards_count = 1,
    perform = recorded(label),
    retries_exhausted = function(jobs) recorder.watch:told(jobs) end,
  }
  for field, value in pairs(settings) do
    options[field] = Values.optional(value)
  end
  options.name = Values.bytes(settings.name or label)
  options.retry_in = function(count) return waits[math.min(count, #waits - 1) + 1] end
  return seriatim.worker(options)
end

return recorder
