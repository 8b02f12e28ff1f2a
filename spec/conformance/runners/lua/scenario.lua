-- One scenario: its queues, and its steps one after another.

local RunStep = require "run"
local Sets = require "sets"
local Values = require "values"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local recorder = require "recorder"
local seriatim = require "seriatim"
local vectors = require "vectors"

local add = Values.add

---@class spec.Scenario
local Scenario = {}
Scenario.__index = Scenario

---host: starts servers.
function Scenario.new(file, scenario, redis, report, host)
  local self = { name = file .. ": " .. scenario.name, scenario = scenario, redis = redis, report = report, host = host }
  return setmetatable(self, Scenario)
end

function Scenario:run()
  self:prepare()
  self:steps(self.scenario.steps, self.name)
  self.report:check(self.name .. ", check at the end", function() return self:findings() end)
end

function Scenario:prepare()
  self.redis:call("CONFIG", "SET", "maxmemory", "0")
  self.redis:flush()
  self:use("spec")
  local seconds, micros = self.redis:call("TIME"):match("(%d+)%s+(%d+)")
  self.values = Values.new(tonumber(seconds) + tonumber(micros) / 1e6)
  self.sets = Sets.new(self.values)
  self.workers = {}
  self.handles = {}
  self.deliveries = {}
  for label, settings in pairs(self.scenario.queues or { q = {} }) do
    self.workers[label] = recorder.worker(label, settings)
  end
end

function Scenario:use(namespace)
  seriatim.namespace = namespace
  seriatim.format_error = function(raised) return tostring(raised) end -- the scenarios name messages
  seriatim.push_timeout = 50 -- a loaded machine may hold a push up
  seriatim.redis = self.redis.url
end

function Scenario:findings()
  local wrong = {}
  for _, worker in pairs(self.workers) do
    for _, finding in ipairs(errors.must(worker.actions:check()).findings) do
      wrong[#wrong + 1] = Values.shown(finding)
    end
  end
  return wrong
end

-- ---- steps

function Scenario:steps(steps, where)
  for place, step in ipairs(steps) do
    self:step(step, ("%s, step %d (%s)"):format(where, place, step["do"]))
  end
end

function Scenario:step(step, where)
  if step["do"] == "wait" then
    self.host.sleep(step.seconds)
  elseif step["do"] == "run" then
    self.report:check(where, function()
      local function nested(steps) self:steps(steps, where) end
      return RunStep.new(step, self.workers, self.values, self.host, nested):call()
    end)
  else
    self.report:check(where, function() return self:checked(step) end)
  end
end

local verbs = {}

local function kind_of(raised)
  if errors.is(raised) then
    return raised.kind
  end
  return type(raised) == "string" and raised:find("seriatim: ", 1, true) and "INVALID" or "no error of seriatim"
end

---Places count from 1 here, and from 0 in the files.
local function in_lua(part)
  return (part:gsub("%[(%d+)%]", function(place) return ("[%d]"):format(place + 1) end))
end

local function error_differs(wanted, raised)
  local kind, text, wrong = kind_of(raised), tostring(raised), {}
  if not wanted then
    return { text }
  end
  for _, part in ipairs(wanted.says) do
    if not text:find(in_lua(part), 1, true) then
      wrong[#wrong + 1] = ("the error is not %s, but %s"):format(in_lua(part), text)
    end
  end
  if kind ~= wanted.kind then
    wrong[#wrong + 1] = ("the error is %s, not %s: %s"):format(kind, wanted.kind, text)
  end
  return wrong
end

---What is wrong with the step.
function Scenario:checked(step)
  local done, wrong = pcall(verbs[step["do"]], self, step, self.workers[step.queue or "q"])
  if not done then
    return error_differs(step.error, wrong)
  end
  return step.error and { "no error, but " .. Values.shown(step.error) .. " was expected" } or wrong
end

-- ---- their arguments

local OWN_KEYS = { at = true, deliver = true, times = true, number = true }

local function payload_of(value, worker)
  return worker.codec == "raw" and Values.bytes(value) or value
end

local function copy_of(self, job, place, worker)
  local copy = {}
  for key, value in pairs(job) do
    copy[key] = not OWN_KEYS[key] and value or nil
  end
  copy.payload = payload_of(job.payload, worker) -- false is one
  copy.id = Values.bytes(copy.id)
  if job.at then
    copy.perform_in = self.values.start + job.at
  end
  if job.deliver then
    copy.deliver_at = self.values.start + job.deliver
  end
  for _, key in ipairs { "score", "perform_in", "delay", "deliver_at", "deliver_in" } do
    copy[key] = Values.number(copy[key])
  end
  if job.number == "id" or job.number == "both" then
    copy.id = copy.id .. ("%d"):format(place)
  end
  if job.number == "payload" or job.number == "both" then
    copy.payload = place
  end
  return copy
end

local function copies(self, jobs, worker)
  local made = {}
  for _, job in ipairs(jobs) do
    for place = 0, (job.times or 1) - 1 do
      made[#made + 1] = copy_of(self, job, place, worker)
    end
  end
  return made
end

local function ids_of(step)
  local ids = {}
  for place, id in ipairs(step.ids) do
    ids[place] = Values.bytes(id)
  end
  return ids
end

local function bound(self, value)
  return type(value) == "table" and self.values.start + value.at or value
end

local function range(self, step, queries)
  local low, high = bound(self, step.min), bound(self, step.max)
  local options = { limit = step.limit, id = step.id and Values.bytes(step.id) }
  if step.query == "processing_data" then
    return queries:processing_data(nil, options)
  elseif step.query == "parked" then
    return queries:parked(options)
  elseif step.query:find("rev_", 1, true) then
    low, high = high, low
  end
  return queries[step.query](queries, low, high, options)
end

-- ---- verbs

-- Of each handle the place, from 0, of the first that equals it.
local function places_of_handles(handles)
  local places, first = {}, {}
  for place, handle in ipairs(handles) do
    first[handle] = first[handle] or place - 1
    places[place] = handle and first[handle] or native.null
  end
  return places
end

local function push(self, step, worker)
  return worker:perform_async(copies(self, step.jobs, worker), { handle = step.handle or false })
end

-- What is wrong with the answer of a push.
local function compare_push(self, step, found)
  self.handles[step.keep or ""] = found.handles
  local seen = { handles = places_of_handles(found.handles), refused_at = {} }
  for place, at in ipairs(found.refused_at) do
    seen.refused_at[place] = at - 1
  end
  for _, field in ipairs { "added", "folded", "refused", "scheduled", "stale" } do
    seen[field] = found[field]
  end
  return self.values:compare(step.expect or {}, seen, "answer")
end

function verbs.push(self, step, worker)
  if not step.one_by_one then
    return compare_push(self, step, errors.must(push(self, step, worker)))
  end
  for _, job in ipairs(copies(self, step.jobs, worker)) do
    errors.must(worker:perform_async { job })
  end
end

local function compare_future(self, step, future)
  local found, err = future:value()
  if err then
    return error_differs(step.error, err)
  end
  return step.error and { "no error, but " .. Values.shown(step.error) .. " was expected" } or compare_push(self, step, found)
end

function verbs.pipeline(self, step)
  local futures = {}
  local _, err = seriatim.pipelined(function()
    for place, each in ipairs(step.pushes) do
      futures[place] = push(self, each, self.workers[each.queue or "q"])
    end
  end)
  local wrong, may_fail = {}, false
  for place, each in ipairs(step.pushes) do
    add(wrong, compare_future(self, each, futures[place]))
    may_fail = may_fail or each.error
  end
  return err and not may_fail and add(wrong, { "pipelined fails: " .. tostring(err) }) or wrong
end

function verbs.query(self, step, worker)
  local queries = worker.queries
  local records = errors.must(step.ids and queries[step.query](queries, ids_of(step)) or range(self, step, queries))
  if step.keep then
    local handles = {}
    for place, record in ipairs(records) do
      handles[place] = record.handle
    end
    self.handles[step.keep] = handles
  end
  if step.expect_ids then
    local ids = {}
    for place, record in ipairs(records) do
      ids[place] = record.id
    end
    return self.values:compare(step.expect_ids, ids, "ids")
  end
  if #records ~= #step.expect then
    return { ("%d records, not %d: %s"):format(#records, #step.expect, Values.shown(records)) }
  end
  local wrong = {}
  for place, wanted in ipairs(step.expect) do
    add(wrong, self.values:compare_record(wanted, records[place], "record", worker.codec == "raw", true))
  end
  return wrong
end

function verbs.explain(self, step, worker)
  local found = errors.must(worker.queries:explain(Values.bytes(step.id)))
  for _, key in ipairs { "job", "behind", "dead" } do
    found[key] = found[key] and found[key].state
  end
  return self.values:compare(step.expect, found, "explanation")
end

function verbs.metrics(self, step, worker)
  local found = errors.must(worker:metrics())
  found.shards = #found.shards
  found.moves_to = found.resharding and found.resharding.to
  return self.values:compare(step.expect, found, "metrics")
end

local NUMBERS = { [true] = 1, [false] = 0 }

local function act_on_handle(self, step, actions)
  local kept = self.handles[step.handle]
  local handle = kept and kept[(step.place or 0) + 1] or step.handle
  local found, err = actions[step.action](actions, handle, step.deliver and self.values.start + step.deliver)
  if err then
    errors.must(found, err)
  end
  return step.expect and self.values:compare(step.expect, NUMBERS[found], "answer")
end

function verbs.action(self, step, worker)
  local actions = worker.actions
  if step.handle then
    return act_on_handle(self, step, actions)
  end
  local what = step.shards or step.ids and ids_of(step) or step.id and Values.bytes(step.id)
  local found = errors.must(actions[step.action](actions, what, step.id and payload_of(step.payload, worker)))
  return step.expect and self.values:compare(step.expect, found, "answer")
end

local function all_labels(workers)
  local labels = {}
  for label in pairs(workers) do
    labels[#labels + 1] = label
  end
  table.sort(labels)
  return labels
end

local function compare_delivery(self, wanted, found)
  if wanted == native.null or not found then
    return self.values:compare(wanted, found and found.id, "popped")
  end
  local seen, raw = { count = #found.payloads }, nil
  for _, field in ipairs { "id", "payloads", "scores", "contexts", "deliveries", "retry_count", "error", "more" } do
    seen[field] = found[field]
  end
  for label, worker in pairs(self.workers) do
    if worker.queue_name == found.queue then
      seen.queue, raw = label, worker.codec == "raw"
    end
  end
  return self.values:compare_record(wanted, seen, "delivery", raw)
end

function verbs.pop(self, step)
  local queues, weights = {}, step.weights and {}
  for place, label in ipairs(step.queues or all_labels(self.workers)) do
    queues[place] = self.workers[label]
    if weights then
      weights[queues[place]] = step.weights[place]
    end
  end
  local found, err = seriatim.pop(queues, { wait = step.wait or 0, ttr = step.ttr, max = step.max, weights = weights })
  if err then
    error(err, 0)
  end
  self.deliveries[step.keep or ""] = found
  return step.expect ~= nil and compare_delivery(self, step.expect, found) or {}
end

local reports = {}

function reports.fail(delivery, step)
  return delivery:fail(step.text, { retry_in = step.seconds })
end

function reports.snooze(delivery, step, worker)
  return delivery:snooze(step.seconds, { payload = payload_of(step.payload, worker) })
end

function reports.extend(delivery, step)
  return delivery:extend(step.seconds)
end

function reports.checkpoint(delivery, step)
  return delivery:checkpoint(step.count)
end

function verbs.popped(self, step, worker)
  local delivery = self.deliveries[step.delivery]
  if step.by == "token" then
    delivery = seriatim.delivery(delivery.token)
  end
  local report = reports[step.report] or delivery[step.report] -- ack and release take nothing else
  errors.must(report(delivery, step, worker))
end

function verbs.declare(_, step)
  errors.must(recorder.worker("declared", step.settings):metrics())
end

function verbs.namespace(self, step)
  self:use(step.name)
end

function verbs.redis(self, step)
  local found = self.redis:call((table.unpack or unpack)(step.command))
  return step.expect and self.values:compare(tostring(step.expect), found, "answer")
end

function verbs.ick(self, step)
  return self.sets:run(step)
end

function verbs.keys(self, step)
  return self.values:compare(step.expect, vectors.stored_keys(self.redis), "keys")
end

return Scenario
