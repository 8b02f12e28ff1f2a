-- The verbs of the command for operators (queues, explain, dead and others). They need no application, only Redis and the
-- name of a queue.
local codes = require "seriatim.cli.exit_codes"
local failure = require "seriatim.cli.failure"
local output = require "seriatim.cli.output"
local tables = require "seriatim.cli.tables"
local metrics = require "seriatim.client.metrics"
local pool = require "seriatim.client.pool"
local pops = require "seriatim.client.pop"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local workers = require "seriatim.worker"

local unpack = table.unpack or unpack

local BOOT_SECONDS = 10
local NO_QUEUE = -1
local FIGURES =
  { "length", "fresh", "retries", "lag", "busy", "paused", "parked", "morgue_length", "processed", "failed", "refused", "stale" }
local QUEUE_FIGURES = { "length", "lag", "busy", "paused", "parked", "morgue_length" }
local MORGUE = { "morgue_length" }
local RECORDS = { "length", "busy", "parked", "morgue_length" } -- of a queue
-- Fields that each node reports, and how a table shows them.
-- definitions: node fields, written by script/embed from core/definitions/nodes.json

local NODE_FIELDS = {
  { "language", "text" },
  { "version", "text" },
  { "threads", "number" },
  { "since", "time" },
  { "rss", "bytes" },
  { "clock_skew", "ahead" },
}

-- end of definitions
local NODE_COLUMNS = { "node", "host", "pid", "state", "queues", "busy" }
for _, field in ipairs(NODE_FIELDS) do
  NODE_COLUMNS[#NODE_COLUMNS + 1] = field[1]
end
local DEAD_PAGE = 200 -- records a query, whose payloads come with them
local MAX_LIMIT = 100000
local ERROR_OF = { -- a part of what explain gives, and what is said before its error
  { "job", "its last error" },
  { "behind", "the error of what waits behind the run" },
  { "dead", "the error of its death" },
}
local IMPORT_USAGE = "import lowkiq QUEUE [--from URL] [--watch]"
local QUEUES_USAGE = "queues [list] | queues delete QUEUE [--force QUEUE]"
local RESHARD_USAGE = "reshard QUEUE N [--no-wait] | reshard QUEUE --status"
local DEAD_USAGE = "dead list|retry|delete QUEUE [ID...] [--error TEXT] [--all]"
local POP_USAGE = "pop QUEUE... [--wait SECONDS] [--ack]"
local SCHEDULED_USAGE =
  "scheduled list QUEUE [--id ID] | scheduled cancel QUEUE HANDLE... | scheduled reschedule QUEUE HANDLE TIME"
local PAYLOAD_SHOWN = 60 -- characters, in a table
local UTC = "^(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d)(%.?%d*)Z$"

---@class seriatim.Operators
local Operators = {}
Operators.__index = Operators

local operators = {}

---@param options table
---@return seriatim.Operators
function operators.new(options)
  if options.require then
    require("seriatim.server.application").load(options.require)
    require("seriatim.server.workers").load_named() -- one that is not loaded yet would not be known by its queue
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
  local allowed, _, refused = native.check_json(payload, "payload")
  if not allowed then -- the value may not tell: an integer beyond int64 reads as a float
    errors.usage(refused)
  end
  return value
end

---One line, whatever an id or an error holds.
local function say(text)
  output.write(log.printable(text), "\n")
end

local function quoted(text)
  return native.dump(log.utf8(text), "text")
end

-- ---- queues

---The worker's settings with this many shards; 0: act by the settings in Redis, and make no queue.
local function settings_with(worker, shards)
  local settings = {}
  for name, value in pairs(worker:queue_settings()) do
    settings[name] = value
  end
  settings.shards_count = shards
  return settings
end

---The first call of every verb, so it says soon when there is no Redis.
local function layout(worker, shards)
  local settings = settings_with(worker, shards)
  return errors.must(pool.ask(function(connection)
    return connection:call("layout", connection:number(settings), BOOT_SECONDS)
  end))
end

---A worker that is known by its queue's name alone. It is not in workers.all, which are those of the application.
local function made_for(queue)
  local worker = workers.define { queue_name = queue }
  table.remove(workers.all)
  local settings = settings_with(worker, 0)
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
function Operators:existing(queue, create)
  local worker = self:worker(queue)
  local shards = layout(worker, 0)
  if shards == 0 then
    errors.usage(("unknown queue %s; seriatim queues lists them%s"):format(quoted(queue), create and ", --create makes it" or ""))
  end
  worker.shards_count = shards
  return worker
end

---All that have a layout in Redis.
local function all_queues()
  layout(made_for("-"), 0)
  local names, err = metrics.queues()
  if not names then
    local refused = errors.is(err, "AUTH") or errors.is(err, "SERVER")
    error(refused and errors.new(err.kind, "cannot list the queues (name them where the verb takes names): " .. err.message) or err, 0)
  end
  table.sort(names)
  return names
end

function Operators:chosen(names)
  local found = {}
  for place, name in ipairs(names) do
    found[place] = self:existing(name)
  end
  return found
end

---Calls `each` with the worker of each of them. Of all queues, where none is named, those that cannot be read are told of and left out.
function Operators:of_queues(names, each)
  for _, worker in ipairs(self:chosen(names)) do
    each(worker)
  end
  for _, name in ipairs(#names == 0 and all_queues() or {}) do
    local read, raised = pcall(function() each(self:existing(name)) end)
    if not read then
      if not errors.is(raised) or errors.is(raised, "USAGE") or failure.no_redis(raised) then
        error(raised, 0)
      end
      self.unread = true
      io.stderr:write("seriatim: ", log.printable(("queue %s: %s"):format(quoted(name), raised.message)), "\n")
    end
  end
end

---With 0 the core only looks and makes no queue; a push that makes none, or that of the application's worker, would ignore the number.
function Operators:check_shards(known)
  local shards = self.options.shards
  if not shards then
    return
  end
  validate.integer("--shards", shards, 1, 4096)
  if not self.options.create then
    errors.usage("--shards needs --create; seriatim reshard gives a queue another number of shards")
  end
  if known and known.shards_count ~= shards then
    errors.usage(("--shards %d: the application's worker has shards_count %d"):format(shards, known.shards_count))
  end
end

---The application's worker, whose push makes its queue; or one of a queue that is there, or that --create makes.
function Operators:pushed_to(queue)
  local known = self:known(queue)
  self:check_shards(known)
  if known then
    layout(known, known.shards_count)
    return known
  end
  if self.options.create then
    local worker = made_for(queue)
    layout(worker, self.options.shards or worker.shards_count)
  end
  return self:existing(queue, true)
end

---The next action on all ids, or the next check, says on a terminal how far it is: by the connection that the pool lends next,
---which is this one, because the command has one thread. worker: of whose figures these are the total; nil: it is not known.
function Operators:show_progress(what, worker, figures)
  local function say_so(total)
    return errors.must(pool.ask(function(connection) return { connection:progress(what, total) } end))[1]
  end
  if self.options.json or not say_so(nil) or not worker then
    return
  end
  local known, total = worker:metrics(), 0 -- a queue with wrong keys has no figures, and is checked all the same
  for _, name in ipairs(known and figures or {}) do
    total = total + known[name]
  end
  say_so(known and total or nil)
end

-- ---- output

local function first_line(text)
  return log.utf8(text):match("^[^\r\n]*")
end

local function different(texts)
  local seen, count = {}, 0
  for _, text in ipairs(texts) do
    count = seen[text] and count or count + 1
    seen[text] = true
  end
  return count
end

---Says how many were changed, and of ids that were named how many were not; of ids (or of this kind) of which none was, that. The
---exit code.
local function changed(word, count, named, otherwise, kind)
  kind = kind or "id"
  local of = different(named)
  local left = kind == "id" and of - count or 0
  if count > 0 and left > 0 then
    local said = left == 1 and otherwise or otherwise:gsub("^is", "are"):gsub("^was", "were")
    say(("%s %d; %d of %d ids %s"):format(word, count, left, of, said))
    return codes.CRASHED
  elseif count > 0 or #named == 0 then
    say(("%s %d"):format(word, count))
    return codes.STOPPED
  end
  say(#named == 1 and ("the %s %s %s"):format(kind, quoted(named[1]), otherwise)
    or ("each of the %d %ss %s"):format(#named, kind, otherwise))
  return codes.CRASHED
end

-- ---- verbs

local VERBS = {}

---The exit code.
---@param verb string
---@param words string[]
---@return integer
function Operators:call(verb, words)
  return VERBS[verb](self, words) or self.unread and codes.CRASHED or codes.STOPPED
end

function VERBS:push(words)
  local queue, id, payload = unpack(exactly(words, 2, 3, "push QUEUE ID [PAYLOAD]"))
  local job = { id = id, delay = self.options.delay, score = self.options.score }
  if payload then
    job.payload = parse(payload)
  end
  local result = errors.must(self:pushed_to(queue):perform_async { job })
  local stale = result.stale > 0 and (", stale %d"):format(result.stale) or ""
  say(("added %d, folded %d, refused %d%s"):format(result.added, result.folded, result.refused, stale))
end

---What a payload says; one that is not JSON is a text, so that no pop of the command sends it to the morgue.
local function json_or_text(data)
  local value = native.load(data)
  if value == nil then
    return data
  end
  return value
end

---Those of the application, or made for the names of queues that are there.
function Operators:popped_from(names)
  local found = self:chosen(names)
  for _, worker in ipairs(found) do
    if worker ~= self:known(worker.queue_name) then
      worker.codec = { tables.json, json_or_text }
    end
  end
  return found
end

local function print_delivery(delivery, as_json)
  if as_json then
    local shown = {}
    for _, name in ipairs { "queue", "id", "fence", "deliveries" } do
      shown[name] = delivery[name]
    end
    for _, name in ipairs { "payloads", "scores", "contexts" } do
      shown[name] = setmetatable(delivery[name], native.array_mt)
    end
    tables.print_json(shown)
    return
  end
  local count = #delivery.payloads == 1 and "1 payload" or ("%d payloads"):format(#delivery.payloads)
  local head = "queue %s, id %s, fence %.0f, delivery %d: %s"
  say(head:format(quoted(delivery.queue), quoted(delivery.id), delivery.fence, delivery.deliveries, count))
  for _, payload in ipairs(delivery.payloads) do
    tables.print_json(payload)
  end
end

local function show_delivery(delivery, as_json)
  print_delivery(delivery, as_json)
  output.flush()
end

---Without --ack the id is handed back.
function VERBS:pop(words)
  local queues = self:popped_from(exactly(words, 1, #words, POP_USAGE))
  local delivery, err = pops.pop(queues, { wait = self.options.wait })
  if err then
    error(err, 0)
  elseif not delivery then
    if self.options.json then
      tables.print_json(native.null)
    else
      say "no id is due"
    end
    return codes.CRASHED
  end
  local printed, raised = pcall(show_delivery, delivery, self.options.json)
  if not printed then
    errors.must(delivery:release())
    error(errors.is(raised, "OUTPUT") and errors.new("OUTPUT", "what was popped cannot be printed; it was handed back") or raised, 0)
  elseif self.options.ack then
    errors.must(delivery:ack())
  else
    errors.must(delivery:release())
  end
end

function VERBS:stats(names)
  local figures = setmetatable({}, native.array_mt)
  self:of_queues(names, function(worker)
    local all = errors.must(worker:metrics())
    all.name = worker.queue_name
    all.resharding = all.resharding or native.null
    for _, shard in ipairs(all.shards) do
      shard.owner = shard.owner or native.null
    end
    figures[#figures + 1] = all
  end)
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
    for _, part in ipairs { "job", "behind", "dead", "owner", "scheduled", "remembered_score", "remembered_until" } do
      answer[part] = answer[part] == nil and native.null or answer[part]
    end
    for _, entry in ipairs(setmetatable(answer.history, native.array_mt)) do
      for _, field in ipairs { "due", "fence", "payloads_count", "node", "error" } do
        entry[field] = entry[field] == nil and native.null or entry[field]
      end
    end
    tables.print_json(answer)
    return
  end
  say(answer.text)
  for _, row in ipairs(ERROR_OF) do
    local part = answer[row[1]]
    if part and part.error then
      say(row[2] .. ": " .. first_line(part.error))
    end
  end
  for _, entry in ipairs(answer.history) do
    say(entry.error and entry.text .. ": " .. first_line(entry.error) or entry.text)
  end
end

---Waiting and parked ids.
function VERBS:delete(words)
  exactly(words, 2, #words, "delete QUEUE ID...")
  local worker = self:existing(table.remove(words, 1))
  return changed("deleted", errors.must(worker.actions:delete(words)), words, "was not found")
end

---The queues of which the node owns shards, and how many ids it runs.
local function owned_by(node, queues)
  local names, busy = setmetatable({}, native.array_mt), 0
  for _, queue in ipairs(queues) do
    local owns = false
    for _, shard in ipairs(queue.shards) do
      if shard.owner == node then
        owns, busy = true, busy + shard.busy
      end
    end
    names[#names + 1] = owns and queue.name or nil
  end
  return names, busy
end

local function node_row(node, queues)
  local host, pid = log.utf8(node.description):match("^(.*) pid (%d+) .* seriatim ")
  local names, busy = owned_by(node.name, queues)
  local row = {
    node = node.name, host = host or native.null, pid = pid and math.floor(tonumber(pid)) or native.null,
    state = node.state, queues = names, busy = busy,
  }
  for _, field in ipairs(NODE_FIELDS) do
    local name = field[1]
    row[name] = node[name] or native.null
  end
  return row
end

local CELLS = { -- by how a field is shown
  text = tostring,
  number = tostring,
  bytes = function(value)
    return ("%d MiB"):format(math.floor(value / 1048576))
  end,
  time = log.timestamp,
  ahead = function(value)
    return ("%+.3f s"):format(value)
  end,
}

local function node_cells(row)
  local shown, cells = setmetatable({ queues = table.concat(row.queues, ",") }, { __index = row }), {}
  for _, field in ipairs(NODE_FIELDS) do
    local name, as = unpack(field)
    shown[name] = row[name] ~= native.null and CELLS[as](row[name]) or nil
  end
  for at, name in ipairs(NODE_COLUMNS) do
    local value = shown[name]
    cells[at] = (value == native.null or value == "") and "-" or value
  end
  return cells
end

---What each node serves is read off the owners of the shards.
function VERBS:nodes(words)
  exactly(words, 0, 0, "nodes")
  local queues, rows, cells = {}, setmetatable({}, native.array_mt), { NODE_COLUMNS }
  self:of_queues({}, function(worker)
    queues[#queues + 1] = { name = log.utf8(worker.queue_name), shards = errors.must(worker:metrics()).shards }
  end)
  for place, node in ipairs(errors.must(metrics.nodes())) do
    rows[place] = node_row(node, queues)
    cells[place + 1] = node_cells(rows[place])
  end
  if self.options.json then
    tables.print_json { nodes = rows }
  else
    tables.print(cells)
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
  local text = self.options.error
  if action ~= "list" and text == "" then
    errors.usage('--error must be a text that is not empty, not ""')
  end
  if action ~= "list" and #words == 0 and not text and not self.options.all then
    errors.usage("name the ids, or --all, or --error TEXT")
  end
  if action ~= "list" and #words == 0 and not text then
    self:show_progress(("dead %s %s"):format(action, queue), worker, MORGUE)
  end
  return DEAD[action](self, worker, words)
end

local function dead_row(record)
  return { record.id, log.timestamp(record.updated_at), record.payloads_count, first_line(record.error or "") }
end

---Those whose error contains the text of --error: all, or at most `limit`.
local function with_error(records, text, limit)
  local found = {}
  for _, record in ipairs(records) do
    if #found ~= limit and (not text or log.utf8(record.error or ""):find(text, 1, true)) then
      found[#found + 1] = record
    end
  end
  return found
end

---Those whose ids are not known.
local function without(records, known)
  local found = {}
  for _, record in ipairs(records) do
    found[#found + 1] = not known[record.id] and record or nil
  end
  return found
end

---Pages of those of the whole morgue as it is now, by the time of death: ids that die meanwhile come behind its end, also those that
---were retried. Each page begins at the last time of the one before, which many ids may share, without the ids of that time that are
---known.
local function pages_with_error(queries, text)
  local from, known, count = -math.huge, {}, 0
  local latest = errors.must(queries:morgue_rev_range_by_updated_at(math.huge, -math.huge, { limit = 1 }))[1]
  return function()
    local options = { limit = DEAD_PAGE + count }
    local page = latest and errors.must(queries:morgue_range_by_updated_at(from, latest.updated_at, options)) or {}
    page = without(page, known)
    if #page == 0 then
      return nil
    end
    if page[#page].updated_at ~= from then
      from, known, count = page[#page].updated_at, {}, 0
    end
    for _, record in ipairs(page) do
      if record.updated_at == from then
        known[record.id], count = true, count + 1
      end
    end
    return with_error(page, text)
  end
end

---At most `limit` dead ids with that error, in the order of their death.
local function dead_with_error(queries, text, limit)
  local found = {}
  for page in pages_with_error(queries, text) do
    for _, record in ipairs(page) do
      found[#found + 1] = #found < limit and record or nil
    end
    if #found >= limit then
      break
    end
  end
  return found
end

function DEAD:list(worker, ids)
  local queries = worker.queries
  local limit, text, records = validate.integer("limit", self.options.limit or 100, 1, MAX_LIMIT), self.options.error
  if #ids > 0 then
    records = with_error(errors.must(queries:morgue_fetch(ids)), text, self.options.limit)
  elseif text then
    records = dead_with_error(queries, text, limit)
  else
    records = errors.must(queries:morgue_range_by_updated_at("-inf", "+inf", { limit = limit }))
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

---On the ids of these records; how many were changed.
local function act_on_page(actions, action, page)
  local ids = {}
  for place, record in ipairs(page) do
    ids[place] = record.id
  end
  return #ids > 0 and errors.must(actions[action](actions, ids)) or 0
end

---On the ids, or on the whole morgue if none is named; how many were changed. Written as `if`: an `or` would take the failure of a
---call for ids as the absence of ids.
local function act_on_ids(actions, action, ids)
  if #ids > 0 then
    return errors.must(actions[action](actions, ids))
  end
  return errors.must(actions[action .. "_all_jobs"](actions))
end

---On those whose error contains the text of --error; of the named ids, if there are any.
local function act_by_error(worker, action, ids, text)
  if #ids > 0 then
    return act_on_page(worker.actions, action, with_error(errors.must(worker.queries:morgue_fetch(ids)), text))
  end
  local count = 0
  for page in pages_with_error(worker.queries, text) do
    count = count + act_on_page(worker.actions, action, page)
  end
  return count
end

local function act_on_dead(self, worker, ids, word, action)
  local actions, text = worker.actions, self.options.error
  if text then
    return changed(word, act_by_error(worker, action, ids, text), ids, "is not dead with this error")
  end
  return changed(word, act_on_ids(actions, action, ids), ids, "is not dead")
end

function DEAD:retry(worker, ids)
  return act_on_dead(self, worker, ids, "queued up", "morgue_queue_up")
end

function DEAD:delete(worker, ids)
  return act_on_dead(self, worker, ids, "deleted", "morgue_delete")
end

local SCHEDULED = {}

---Payloads whose deliver_at has not come.
function VERBS:scheduled(words)
  exactly(words, 2, #words, SCHEDULED_USAGE)
  local action, queue = table.remove(words, 1), table.remove(words, 1)
  local fits = action == "list" and #words == 0 or action == "cancel" and #words > 0 or action == "reschedule" and #words == 2
  if not fits then
    errors.usage("usage: seriatim-lua " .. SCHEDULED_USAGE)
  end
  return SCHEDULED[action](self, queue, words)
end

---The beginning of a payload, as JSON.
local function brief(payload)
  local kept = {}
  for character in tables.json(payload):gmatch("[^\128-\191][\128-\191]*") do
    if #kept == PAYLOAD_SHOWN then
      return table.concat(kept) .. "..."
    end
    kept[#kept + 1] = character
  end
  return table.concat(kept)
end

function SCHEDULED:list(queue)
  local options = { limit = self.options.limit or 100, id = self.options.id }
  local found = errors.must(self:existing(queue).queries:range_by_deliver_at("-inf", "+inf", options))
  if self.options.json then
    tables.print_json(setmetatable(found, native.array_mt))
    return
  end
  local rows = { { "deliver_at", "pushed_at", "id", "handle", "payload" } }
  for place, row in ipairs(found) do
    rows[place + 1] =
      { log.timestamp(row.deliver_at), log.timestamp(row.pushed_at), row.id, row.handle, brief(row.payload) }
  end
  tables.print(rows)
end

function SCHEDULED:cancel(queue, handles)
  local actions, count = self:existing(queue).actions, 0
  for _, handle in ipairs(handles) do
    count = count + (errors.must(actions:cancel(handle)) and 1 or 0)
  end
  return changed("cancelled", count, handles, "names no payload that can be cancelled", "handle")
end

---Unix seconds of a date and a time in UTC: days since 1970 are counted from a year that begins in March.
local function utc(year, month, day, hour, minute, second)
  local from_march = (month + 9) % 12
  local y = month <= 2 and year - 1 or year
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400)
    + math.floor((153 * from_march + 2) / 5) + day - 719469
  return ((days * 24 + hour) * 60 + minute) * 60 + second
end

---Of Unix seconds, +SECONDS from now, or UTC as log.timestamp writes it, also without milliseconds.
local function unix_time(text)
  if text:find("^%+?%d+%.?%d*$") and text:find("%d$") then
    return (text:find("^%+") and native.time() or 0) + tonumber((text:gsub("^%+", "")))
  end
  local year, month, day, hour, minute, second, fraction = text:match(UTC)
  if year and (fraction == "" or fraction:find("^%.%d%d%d$")) then
    local whole = utc(tonumber(year), tonumber(month), tonumber(day), tonumber(hour), tonumber(minute), tonumber(second))
    if os.date("!%Y-%m-%dT%H:%M:%S", whole) == text:sub(1, 19) then -- there is no 30 February
      return whole + (tonumber(fraction) or 0)
    end
  end
  errors.usage(
    "TIME must be Unix seconds, +SECONDS from now or UTC such as 2026-11-24T08:00:00Z, not " .. quoted(text))
end

function SCHEDULED:reschedule(queue, words)
  local at = unix_time(words[2])
  local count = errors.must(self:existing(queue).actions:reschedule(words[1], at)) and 1 or 0
  return changed("rescheduled", count, { words[1] }, "names no payload that can be rescheduled", "handle")
end

local function id_of(words, verb)
  exactly(words, 1, 2, verb .. " QUEUE [ID]")
  return words[2] and { words[2] }
end

function VERBS:pause(words)
  local ids = id_of(words, "pause")
  local actions = self:existing(words[1]).actions
  if ids then
    return changed("parked", errors.must(actions:park(ids)), ids, "was not found")
  end
  say(("paused %d shards"):format(errors.must(actions:pause())))
end

function VERBS:resume(words)
  local ids = id_of(words, "resume")
  local actions = self:existing(words[1]).actions
  if ids then
    return changed("unparked", errors.must(actions:unpark(ids)), ids, "is not parked")
  end
  say(("resumed %d shards"):format(errors.must(actions:resume())))
end

local function queue_list(self)
  local figures, rows = setmetatable({}, native.array_mt), { { "queue", "shards" } }
  for at, name in ipairs(QUEUE_FIGURES) do
    rows[1][at + 2] = name
  end
  self:of_queues({}, function(worker)
    local all = errors.must(worker:metrics())
    local figure, row = { queue = worker.queue_name, shards = worker.shards_count }, { worker.queue_name, worker.shards_count }
    for at, name in ipairs(QUEUE_FIGURES) do
      figure[name], row[at + 2] = all[name], all[name]
    end
    figures[#figures + 1], rows[#rows + 1] = figure, row
  end)
  if self.options.json then
    tables.print_json { queues = figures }
  else
    tables.print(rows)
  end
end

function VERBS:queues(words)
  exactly(words, 0, 2, QUEUES_USAGE)
  local verb, queue, force = words[1] or "list", words[2], self.options.force
  if verb == "list" and not queue then
    return queue_list(self)
  elseif verb ~= "delete" or not queue then
    errors.usage("usage: seriatim-lua " .. QUEUES_USAGE)
  end
  if force and force ~= queue then
    errors.usage("--force must name the queue once more")
  end
  errors.must(self:existing(queue).actions:delete_queue { force = force ~= nil })
  say("deleted the queue " .. quoted(queue))
end

-- What lies below the namespace and is no queue's, and queues whose layout is not right.
local function check_namespace(self, repair)
  layout(made_for("-"), 0)
  self:show_progress("check")
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

function VERBS:reshard(words)
  local wanted = self.options.status and 1 or 2
  local queue, shards = unpack(exactly(words, wanted, wanted, RESHARD_USAGE))
  if shards and not (shards:find("^%d+$") and #shards < 10) then
    errors.usage("shards must be a whole number from 1 to 4096, not " .. quoted(shards))
  end
  return require("seriatim.cli.reshard_command").new(self:existing(queue), self.options):run(tonumber(shards))
end

-- The jobs of Lowkiq are in Ruby's own format.
function VERBS:import(words)
  exactly(words, 2, 2, IMPORT_USAGE)
  if words[1] ~= "lowkiq" then
    errors.usage("usage: seriatim-lua " .. IMPORT_USAGE)
  end
  errors.usage("import needs Ruby, because the jobs of Lowkiq are in Ruby's own format: use the command of the gem seriatim")
end

function VERBS:check(names)
  local repair = self.options.repair or false
  local strays = #names > 0 and {} or check_namespace(self, repair)
  local results, right = setmetatable({}, native.array_mt), all_repaired(strays)
  for place, worker in ipairs(checkable(self, names, strays)) do
    self:show_progress("check " .. worker.queue_name, worker, RECORDS)
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
