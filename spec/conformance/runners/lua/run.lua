-- The step run: a server from its start to its stop, and what its workers saw meanwhile.

local Values = require "values"
local errors = require "seriatim.errors"
local recorder = require "recorder"

---@class spec.RunStep
local RunStep = {}
RunStep.__index = RunStep

---host: starts servers (turns.lua). steps: runs nested ones.
function RunStep.new(step, workers, values, host, steps)
  local self = { step = step, values = values, host = host, expect = step.expect or {}, workers = {}, labels = {} }
  for label, worker in pairs(workers) do
    self.workers[label] = worker
  end
  if step.queues then
    self.workers = {}
    for _, label in ipairs(step.queues) do
      self.workers[label] = workers[label]
    end
  end
  self.watch = recorder.Watch.new(step.plan or {}, host.sleep, steps)
  recorder.watch = self.watch
  return setmetatable(self, RunStep)
end

---Of two with one name either.
local function distinct(workers)
  local seen, found = {}, {}
  for _, worker in pairs(workers) do
    if not seen[worker.queue_name] then
      seen[worker.queue_name] = true
      found[#found + 1] = worker
    end
  end
  return found
end

---What was wrong.
function RunStep:call()
  local server = self.host.start(distinct(self.workers), self.step.threads or 1)
  local waited, wrong = pcall(self.wait, self, server)
  if not waited then
    server:stop(0)
    error(wrong, 0)
  end
  if not server:stop(30) then
    wrong[#wrong + 1] = "it did not stop in time"
  end
  self.runs = self.watch.runs
  Values.add(wrong, self.watch.wrong)
  Values.add(wrong, self:exclusive())
  return Values.add(wrong, self:seen())
end

function RunStep:wait(server)
  if server:await(self.step.limit or 60, function() return self:is_over() end) then
    return {}
  end
  local figures = {}
  for label, worker in pairs(self.workers) do
    figures[label] = errors.must(worker:metrics())
    figures[label].shards = nil
  end
  return { ("not over within its limit, after %d runs, with %s"):format(self.watch:ended(), Values.shown(figures)) }
end

function RunStep:is_over()
  local wanted = self.step["until"] or "idle"
  if #self.watch.exhausted < #(self.expect.exhausted or {}) then
    return false
  end
  if type(wanted) == "number" then
    return self.watch:ended() >= wanted
  end
  return self:all_quiet(wanted) and self:all_quiet(wanted)
end

function RunStep:all_quiet(wanted)
  for _, worker in pairs(self.workers) do
    local figures = errors.must(worker:metrics())
    if figures.busy > 0 or figures.resharding or figures[wanted == "empty" and "length" or "lag"] > 0 then
      return false
    end
  end
  return true
end

-- ---- always checked

function RunStep:exclusive()
  local last, wrong = {}, {}
  for _, run in ipairs(self.runs) do
    for _, job in ipairs(run.jobs) do
      local key = self.workers[run.queue].queue_name .. "\0" .. job.id
      if last[key] then
        Values.add(wrong, self:pair(last[key], { run, job }))
      end
      last[key] = { run, job }
    end
  end
  return wrong
end

---before, after: {run, job} of one id.
function RunStep:pair(before, after)
  local wrong, id = {}, after[2].id
  if after[2].fence <= before[2].fence then
    wrong[#wrong + 1] = ("the fence of %s fell"):format(id)
  end
  if not self.step.overrun and (before[1].ended or math.huge) > after[1].began then
    wrong[#wrong + 1] = ("two runs of %s overlap"):format(id)
  end
  return wrong
end

-- ---- what is expected

function RunStep:seen()
  local expect, wrong = self.expect, {}
  if expect.runs then
    Values.add(wrong, self:compare_runs())
  end
  if expect.count then
    Values.add(wrong, self.values:compare(expect.count, #self.runs, "count"))
  end
  if expect.at_once then
    Values.add(wrong, self.values:compare(expect.at_once, self:at_once(), "at_once"))
  end
  for id, count in pairs(expect.numbers or {}) do
    Values.add(wrong, self:numbers(id, count))
  end
  return Values.add(wrong, self:exhausted())
end

local function shown_runs(runs)
  local found = {}
  for place, run in ipairs(runs) do
    found[place] = {}
    for at, job in ipairs(run.jobs) do
      found[place][at] = { job.id, job.payloads }
    end
  end
  return Values.shown(found)
end

function RunStep:compare_runs()
  local found = self.expect.any_order and self:sorted() or self.runs
  local wanted, wrong = self.expect.runs, {}
  if #found ~= #wanted then
    return { ("%d runs, not %d: %s"):format(#found, #wanted, shown_runs(found)) }
  end
  for place, run in ipairs(found) do
    Values.add(wrong, self:one(wanted[place], run, found[place - 1], ("runs[%d]"):format(place)))
  end
  return wrong
end

---By their first ids; runs of one id stay in their order.
function RunStep:sorted()
  local places, runs = {}, {}
  for place, run in ipairs(self.runs) do
    table.sort(run.jobs, function(a, b) return a.id < b.id end)
    places[run], runs[place] = place, run
  end
  table.sort(runs, function(a, b)
    local one, other = a.jobs[1].id, b.jobs[1].id
    return one < other or one == other and places[a] < places[b]
  end)
  return runs
end

function RunStep:one(wanted, run, before, where)
  local facts = { queue = run.queue, size = #run.jobs, began = run.began, after = before and run.began - before.ended }
  local wrong = {}
  for key, value in pairs(wanted) do
    if key ~= "jobs" then
      Values.add(wrong, self.values:compare(value, facts[key], where .. "." .. key))
    end
  end
  if not wanted.jobs then
    return wrong
  elseif #wanted.jobs ~= #run.jobs then
    return Values.add(wrong, { ("%s has %d jobs"):format(where, #run.jobs) })
  end
  local raw = self.workers[run.queue].codec == "raw"
  for place, job in ipairs(wanted.jobs) do
    local found = run.jobs[place]
    Values.add(wrong, self.values:compare_record(job, found, where .. " " .. found.id, raw))
  end
  return wrong
end

function RunStep:numbers(id, count)
  local payloads, right = {}, true
  for _, run in ipairs(self.runs) do
    for _, job in ipairs(run.jobs) do
      for _, payload in ipairs(job.id == id and job.payloads or {}) do
        right = right and payload == #payloads
        payloads[#payloads + 1] = payload
      end
    end
  end
  return right and #payloads == count and {} or { ("the payloads of %s are %s"):format(id, Values.shown(payloads)) }
end

function RunStep:at_once()
  local most = 0
  for _, run in ipairs(self.runs) do
    local count = 0
    for _, other in ipairs(self.runs) do
      count = count + (other.began <= run.began and (other.ended or 0) > run.began and 1 or 0)
    end
    most = math.max(most, count)
  end
  return most
end

function RunStep:exhausted()
  local wanted, told, wrong = self.expect.exhausted, self.watch.exhausted, {}
  if not wanted then
    return wrong
  elseif #told ~= #wanted then
    return { "retries_exhausted was told " .. Values.shown(told) }
  end
  for place, one in ipairs(wanted) do
    Values.add(wrong, self.values:compare_record(one, told[place], "exhausted", false, true))
  end
  return wrong
end

return RunStep
