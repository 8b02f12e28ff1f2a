-- Chooses which workers a server runs.

local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local events = require "seriatim.events"
local settings = require "seriatim.settings"
local worker = require "seriatim.worker"

local workers = {}

local function named(name)
  local module, path = name:match("^([^:]+):(.+)$")
  local ok, found = pcall(require, module or name)
  if not ok then
    errors.usage(("workers: there is no %s: %s"):format(name, tostring(found)))
  end
  for part in (path or ""):gmatch("[^.]+") do
    found = type(found) == "table" and found[part]
  end
  if not found then
    errors.usage(("workers: there is no %s: the module has no such field"):format(name))
  end
  return found
end

---The worker itself, or what "module:OrderWorker" or "module" (which returns a worker) names.
---@param given seriatim.Worker|string
---@return seriatim.Worker
function workers.find(given)
  local found = given
  if type(given) == "string" then
    found = named(given)
  end
  if worker.is(found) then
    return found
  end
  return errors.usage(("workers: %s is not a seriatim.worker"):format(validate.shown(given)))
end

---Has a reload of its file defined `other` anew? Then the file was loaded again, or the same line of it has run again. Two
---definitions of one name in two files, or at two lines of one, are a mistake of the application.
local function is_reloaded(each, other)
  local one, two = each.place, other.place
  if each.worker.name ~= other.worker.name or one.file ~= two.file then
    return false
  end
  return one.chunk ~= two.chunk or one.line == two.line and each.perform_at == other.perform_at
end

local function place_of_reloaded(list, each)
  for place, other in ipairs(list) do
    if is_reloaded(each, other) then
      return place
    end
  end
  return #list + 1
end

---All that were defined; of those that a reload replaced, only the latest.
---@return seriatim.Worker[]
function workers.defined()
  local list, found = {}, {}
  for _, each in ipairs(worker.all) do
    local place = place_of_reloaded(list, each)
    list[place], found[place] = each, each.worker
  end
  return found
end

---What the dashboard may call a queue otherwise: name, queue, name, queue, ... of those whose name is not that of their queue.
---@return string[]
function workers.renamed()
  local found = {}
  for _, each in ipairs(worker.all) do
    local made = each.worker
    if made.name ~= made.queue_name then
      found[#found + 1] = made.name
      found[#found + 1] = made.queue_name
    end
  end
  return found
end

local function resolved(given)
  if given == nil and settings.workers_set() then
    given = settings.workers
  end
  if validate.is_callable(given) then
    given = given()
  end
  if given == nil then
    return workers.defined()
  end
  return validate.list("workers", given)
end

---Loads the workers that seriatim.workers names, for those who then look among all workers.
function workers.load_named()
  for _, given in ipairs(resolved()) do
    workers.find(given)
  end
end

---The workers of the list, then those of events.
local function each_once(list)
  local seen, found = {}, {}
  for _, given in ipairs { list, events.workers() } do
    for _, each in ipairs(given) do
      local made = workers.find(each)
      if not seen[made] then
        seen[made] = true
        found[#found + 1] = made
      end
    end
  end
  return found
end

---The workers that were chosen for a server, then those of events that got a handler since, unless it was told its queues.
---@param chosen seriatim.Worker[]
---@param is_restricted boolean
---@return seriatim.Worker[]
function workers.with_added(chosen, is_restricted)
  return is_restricted and chosen or each_once(chosen)
end

local function refuse_double_queues(list)
  local first = {}
  for _, made in ipairs(list) do
    local other = first[made.queue_name]
    if other then
      local text = "workers: %s and %s have the same queue_name %s"
      errors.usage(text:format(other.name, made.name, validate.shown(made.queue_name)))
    end
    first[made.queue_name] = made
  end
end

local function shown(names)
  local texts = {}
  for place, name in ipairs(names) do
    texts[place] = validate.shown(name)
  end
  return table.concat(texts, ", ")
end

local function of_queues(list, names)
  local wanted, known, all, unknown, found = {}, {}, {}, {}, {}
  for place, made in ipairs(list) do
    known[made.queue_name], all[place] = true, made.queue_name
  end
  for _, name in ipairs(names) do
    wanted[name] = true
    if not known[name] then
      unknown[#unknown + 1] = name
    end
  end
  if #unknown > 0 then
    errors.usage(("unknown queue %s; there are %s"):format(shown(unknown), shown(all)))
  end
  for _, made in ipairs(list) do
    if wanted[made.queue_name] then
      found[#found + 1] = made
    end
  end
  return found
end

---Its jobs would fail one by one, each until its retries are used up.
local function refuse_without_perform(made)
  if made.perform == nil then
    local text = "workers: %s has no perform; write `perform = function(payloads_by_id) end` in its options, "
      .. "or, if this process only pushes to it, name the workers to run in seriatim.workers"
    errors.application(text:format(made.name))
  end
end

---given: as seriatim.workers, whose value is the default; never set: every worker that was defined.
---queues: only the workers of these. Raises USAGE.
---@param given nil|(seriatim.Worker|string)[]|fun(): (seriatim.Worker|string)[]
---@param queues string[]?
---@return seriatim.Worker[]
function workers.chosen(given, queues)
  local list = each_once(resolved(given))
  if #list == 0 then
    errors.usage("no workers: set seriatim.workers, or define one with seriatim.worker")
  end
  refuse_double_queues(list)
  list = queues and of_queues(list, validate.list("queues", queues)) or list
  for _, made in ipairs(list) do
    refuse_without_perform(made)
  end
  return list
end

return workers
