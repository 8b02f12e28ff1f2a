-- The operators' verbs. They need no application: a queue's name and Redis are enough.
local codes = require "seriatim.cli.exit_codes"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local metrics = require "seriatim.metrics"
local native = require "seriatim.native"
local pool = require "seriatim.pool"
local tables = require "seriatim.cli.tables"
local workers = require "seriatim.worker"

local unpack = table.unpack or unpack

local BOOT_SECONDS = 10
local NO_QUEUE = -1
local FIGURES =
  { "length", "fresh", "retries", "lag", "busy", "paused", "parked", "morgue_length", "processed", "failed", "refused" }
local DEAD_USAGE = "dead list|retry|delete QUEUE [ID...] [--all]"

---@class seriatim.Operators
local Operators = {}
Operators.__index = Operators

local operators = {}

---@param options table
---@return seriatim.Operators
function operators.new(options)
  if options.require then
    require("seriatim.application").load(options.require)
  end
  return setmetatable({ options = options }, Operators)
end

-- ---- words

local function exactly(words, least, most, usage)
  if #words < least or #words > most then
    errors.usage("usage: seriatim-lua " .. usage)
  end
  return words
end

local function parse(payload)
  local value, _, message = native.load(payload)
  if value == nil then
    errors.usage(("the payload is not valid JSON (%s); a text needs its quotes: '\"paid\"'"):format(message))
  end
  return value
end

---One line, whatever an id or an error holds.
local function say(text)
  io.stdout:write(log.printable(text), "\n")
end

local function quoted(text)
  return native.dump(log.utf8(text), "text")
end

-- ---- queues

---The first call of every verb, so it says soon when there is no Redis.
local function layout(worker, shards)
  local settings = {}
  for place, value in ipairs(worker:queue_settings()) do
    settings[place] = value
  end
  settings[2] = shards
  return errors.must(pool.ask(function(connection)
    return connection:call("layout", connection:number(settings), BOOT_SECONDS)
  end))
end

---A worker that is known by its queue's name alone: with 0 shards it acts by the settings in Redis, and makes no queue.
local function made_for(queue)
  local worker = workers.define { queue_name = queue }
  local settings = {}
  for place, value in ipairs(worker:queue_settings()) do
    settings[place] = value
  end
  settings[2] = 0
  rawset(worker, "queue_settings", function() return settings end)
  return worker
end

---The application's worker of that queue, or nil.
function Operators:known(queue)
  if self.options.require then
    for place = #workers.all, 1, -1 do
      if workers.all[place].worker.queue_name == queue then
        return workers.all[place].worker
      end
    end
  end
end

function Operators:worker(queue)
  return self:known(queue) or made_for(queue)
end

---A worker whose queue is there.
function Operators:existing(queue)
  local worker = self:worker(queue)
  local shards = layout(worker, 0)
  if shards == 0 then
    errors.usage("unknown queue " .. quoted(queue))
  end
  worker.shards_count = shards
  return worker
end

---All that have a layout in Redis.
local function all_queues()
  layout(workers.define { queue_name = "-" }, 0)
  local names, err = metrics.queues()
  if not names then
    err = errors.is(err, "SERVER") and errors.new("SERVER", "cannot list the queues (name them): " .. err.message) or err
    error(err, 0)
  end
  table.sort(names)
  return names
end

function Operators:chosen(names)
  local found = {}
  for place, name in ipairs(#names > 0 and names or all_queues()) do
    found[place] = self:existing(name)
  end
  return found
end

---The application's worker, whose push makes its queue; or one of a queue that is there, or that --create makes.
function Operators:pushed_to(queue)
  local known = self:known(queue)
  if known then
    layout(known, known.shards_count)
    return known
  end
  if self.options.create then
    local worker = made_for(queue)
    layout(worker, self.options.shards or worker.shards_count)
  end
  return self:existing(queue)
end

-- ---- verbs

local VERBS = {}

---The exit code.
---@param verb string
---@param words string[]
---@return integer
function Operators:call(verb, words)
  if not VERBS[verb] then
    errors.usage(verb .. " comes in a later release")
  end
  return VERBS[verb](self, words) or codes.STOPPED
end

function VERBS:push(words)
  local queue, id, payload = unpack(exactly(words, 2, 3, "push QUEUE ID [PAYLOAD]"))
  local job = { id = id, delay = self.options.delay, score = self.options.score }
  if payload then
    job.payload = parse(payload)
  end
  local result = errors.must(self:pushed_to(queue):perform_async { job })
  say(("added %d, folded %d, refused %d"):format(result.added, result.folded, result.refused))
end

function VERBS:stats(names)
  local figures = setmetatable({}, native.array_mt)
  for place, worker in ipairs(self:chosen(names)) do
    figures[place] = errors.must(worker:metrics())
    figures[place].name = worker.queue_name
  end
  if self.options.json then
    tables.print_json { queues = figures, nodes = setmetatable(errors.must(metrics.nodes()), native.array_mt) }
    return
  end
  local rows = { { "queue" } }
  for at, name in ipairs(FIGURES) do
    rows[1][at + 1] = name
  end
  for place, each in ipairs(figures) do
    rows[place + 1] = { each.name }
    for at, name in ipairs(FIGURES) do
      rows[place + 1][at + 1] = each[name]
    end
  end
  tables.print(rows)
end

function VERBS:explain(words)
  local queue, id = unpack(exactly(words, 2, 2, "explain QUEUE ID"))
  local answer = errors.must(self:existing(queue).queries:explain(id))
  if self.options.json then
    for _, part in ipairs { "job", "behind", "dead", "owner" } do
      answer[part] = answer[part] == nil and native.null or answer[part]
    end
    tables.print_json(answer)
  else
    say(answer.text)
  end
end

local DEAD = {}

function VERBS:dead(words)
  exactly(words, 2, #words, DEAD_USAGE)
  local action, queue = table.remove(words, 1), table.remove(words, 1)
  if not DEAD[action] then
    errors.usage("usage: seriatim-lua " .. DEAD_USAGE)
  end
  local worker = self:existing(queue)
  if action ~= "list" and #words == 0 and not self.options.all then
    errors.usage("name the ids, or --all")
  end
  DEAD[action](self, worker, words)
end

local function dead_row(record)
  local first_line = log.utf8(record.error or ""):match("^[^\n]*"):gsub("\r$", "")
  return { record.id, log.timestamp(record.updated_at), #record.payloads, first_line }
end

function DEAD:list(worker, ids)
  local queries = worker.queries
  local records
  if #ids > 0 then
    records = errors.must(queries:morgue_fetch(ids))
  else
    records = errors.must(queries:morgue_range_by_updated_at("-inf", "+inf", { limit = self.options.limit or 100 }))
  end
  if self.options.json then
    tables.print_json(setmetatable(records, native.array_mt))
    return
  end
  local rows = { { "id", "died", "payloads", "error" } }
  for place, record in ipairs(records) do
    rows[place + 1] = dead_row(record)
  end
  tables.print(rows)
end

function DEAD:retry(worker, ids)
  local actions = worker.actions
  local count = errors.must(#ids > 0 and actions:morgue_queue_up(ids) or actions:morgue_queue_up_all_jobs())
  say(("queued up %d"):format(count))
end

function DEAD:delete(worker, ids)
  local actions = worker.actions
  local count = errors.must(#ids > 0 and actions:morgue_delete(ids) or actions:morgue_delete_all_jobs())
  say(("deleted %d"):format(count))
end

local function id_of(words, verb)
  exactly(words, 1, 2, verb .. " QUEUE [ID]")
  return words[2] and { words[2] }
end

local function say_of_id(id, word, count, otherwise)
  if count > 0 then
    say(("%s %d"):format(word, count))
    return codes.STOPPED
  end
  say(("the id %s %s"):format(quoted(id), otherwise))
  return codes.CRASHED
end

function VERBS:pause(words)
  local ids = id_of(words, "pause")
  local actions = self:existing(words[1]).actions
  if ids then
    return say_of_id(ids[1], "parked", errors.must(actions:park(ids)), "was not found")
  end
  say(("paused %d shards"):format(errors.must(actions:pause())))
end

function VERBS:resume(words)
  local ids = id_of(words, "resume")
  local actions = self:existing(words[1]).actions
  if ids then
    return say_of_id(ids[1], "unparked", errors.must(actions:unpark(ids)), "is not parked")
  end
  say(("resumed %d shards"):format(errors.must(actions:resume())))
end

function VERBS:queues(words)
  local usage = "queues delete QUEUE [--force QUEUE]"
  exactly(words, 2, 2, usage)
  if words[1] ~= "delete" then
    errors.usage("usage: seriatim-lua " .. usage)
  end
  local queue, force = words[2], self.options.force
  if force and force ~= queue then
    errors.usage("--force must name the queue once more")
  end
  errors.must(self:existing(queue).actions:delete_queue { force = force ~= nil })
  say("deleted the queue " .. quoted(queue))
end

-- What lies below the namespace and is no queue's, and queues whose layout is not right.
local function check_namespace(repair)
  layout(workers.define { queue_name = "-" }, 0)
  local _, findings = errors.must(pool.ask(function(connection)
    return connection:call("check", NO_QUEUE, repair, nil)
  end))
  return findings
end

-- A layout that cannot be read is a finding already.
local function checkable(self, names, strays)
  if #names > 0 then
    return self:chosen(names)
  end
  local broken, found = {}, {}
  for _, finding in ipairs(strays) do
    broken[finding.kind == "layout" and finding.id or false] = true
  end
  for _, name in ipairs(all_queues()) do
    if not broken[name] then
      found[#found + 1] = self:existing(name)
    end
  end
  return found
end

local function finding_line(finding)
  local id = finding.id and " id " .. quoted(finding.id) or ""
  return ("%s%s: %s%s"):format(finding.kind, id, finding.detail, finding.repaired and " (repaired)" or "")
end

local function say_findings(results, strays)
  for _, finding in ipairs(strays) do
    say("namespace " .. finding_line(finding))
  end
  for _, result in ipairs(results) do
    local name = log.utf8(result.name)
    for _, finding in ipairs(result.findings) do
      say(("%s/%d %s"):format(name, finding.shard, finding_line(finding)))
    end
    say(("%s: %d records, %d findings"):format(name, result.looked_at, #result.findings))
  end
end

local function for_json(findings)
  for _, finding in ipairs(findings) do
    finding.id = finding.id or native.null
  end
  return setmetatable(findings, native.array_mt)
end

local function all_repaired(findings)
  for _, finding in ipairs(findings) do
    if not finding.repaired then
      return false
    end
  end
  return true
end

function VERBS:check(names)
  local repair = self.options.repair or false
  local strays = #names > 0 and {} or check_namespace(repair)
  local results, right = setmetatable({}, native.array_mt), all_repaired(strays)
  for place, worker in ipairs(checkable(self, names, strays)) do
    results[place] = errors.must(worker.actions:check { repair = repair })
    results[place].name = worker.queue_name
    right = all_repaired(results[place].findings) and right
  end
  if self.options.json then
    for _, result in ipairs(results) do
      result.findings = for_json(result.findings)
    end
    tables.print_json { queues = results, namespace = for_json(strays) }
  else
    say_findings(results, strays)
  end
  return right and codes.STOPPED or codes.CRASHED
end

return operators
