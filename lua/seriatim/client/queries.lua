-- The queries: what is in a worker's queue.

local jobs = require "seriatim.client.jobs"
local pool = require "seriatim.client.pool"
local stored_error = require "seriatim.client.stored_error"
local validate = require "seriatim.client.validate"

local queries = {}

---A waiting, running or parked id. payloads are {payload, score}, by score, at most 1,000; one that the codec cannot read is its bytes.
---@class seriatim.Record
---@field id string
---@field perform_in number  Unix seconds
---@field retry_count integer
---@field payloads any[][]
---@field payloads_count integer  how many are stored
---@field error string?  of the last failure
---@field scheduled seriatim.Scheduled?  only fetch tells it, of ids that have scheduled payloads

---A payload whose deliver_at has not come.
---@class seriatim.ScheduledPayload
---@field id string?  of a range
---@field payload any
---@field score number?  if the push gave one
---@field deliver_at number  Unix seconds
---@field pushed_at number  Unix seconds
---@field handle string

---The scheduled payloads of an id: the first ones of them, at most 10 and some 384 KiB.
---@class seriatim.Scheduled
---@field count integer
---@field deliver_at number  Unix seconds; of the first
---@field payloads seriatim.ScheduledPayload[]

---A dead id.
---@class seriatim.DeadRecord
---@field id string
---@field updated_at number  Unix seconds
---@field payloads any[][]  at most 1,000
---@field payloads_count integer  how many are stored
---@field error string?

---A record of explain: without its payloads, and with its state.
---@class seriatim.KnownRecord
---@field id string
---@field perform_in number?  Unix seconds; not of a dead id
---@field retry_count integer?  not of a dead id
---@field updated_at number?  Unix seconds; of a dead id
---@field payloads_count integer
---@field error string?  of the last failure
---@field state string  waiting, delayed, running, parked ... in the core's words

---One event of an id. Fields that an event does not have are nil.
---@class seriatim.HistoryEntry
---@field text string  a line for a reader
---@field event string  "pushed", "claimed", "failed" ...
---@field at number  Unix seconds
---@field due number?  Unix seconds
---@field fence integer?
---@field payloads_count integer?
---@field node string?
---@field error string?

---Why an id is or is not running: text in one sentence, and what it rests on.
---@class seriatim.Explanation
---@field text string
---@field job seriatim.KnownRecord?
---@field behind seriatim.KnownRecord?
---@field dead seriatim.KnownRecord?
---@field scheduled { payloads_count: integer, deliver_at: number }?
---@field owner string?
---@field owner_alive boolean
---@field paused boolean
---@field lease integer
---@field fence integer
---@field remembered_score number?  jobs whose own score is not above it are stale (remember_score)
---@field remembered_until number?  Unix seconds
---@field now number  Unix seconds
---@field history seriatim.HistoryEntry[]  the last events of the id, the latest last, where the worker has history_per_id

---Redis' own bounds: of ids "-", "+", "[from" or "(after"; of numbers 5, "(5", "-inf", math.huge.
---@alias seriatim.Bound string|number

---@class seriatim.QueryOptions
---@field limit integer?  1 to 100,000 records

---@class seriatim.ScheduledOptions: seriatim.QueryOptions
---@field id seriatim.Id?  only the payloads of this id; nil: of all ids

local DEFAULT_LIMIT, MAX_LIMIT = 10, 100000
local LIVING = { "id", "perform_in", "retry_count", "payloads_count", "error" }
local DEAD = { "id", "updated_at", "payloads_count", "error" }
local OPTIONS = { "limit" }
local SCHEDULED_OPTIONS = { "limit", "id" }

local function bound(value)
  if type(value) == "string" then
    return value
  end
  local given = value == value and validate.number(value)
  if not given then
    return validate.refuse("bound", "a string or a number", value)
  end
  if given == math.huge or given == -math.huge then
    return given > 0 and "+inf" or "-inf"
  end
  return validate.digits(value) or ("%.17g"):format(given)
end

local function limit_of(options, default)
  local limit = validate.options(options, OPTIONS).limit
  return validate.integer("limit", limit == nil and default or limit, 1, MAX_LIMIT)
end

local function payload_of(codec, bytes)
  local payload = codec.load(bytes)
  if payload == nil then
    return bytes
  end
  return payload
end

local function payloads_of(worker, rows)
  local codec = worker:payload_codec()
  local payloads = {}
  for place, row in ipairs(rows) do
    payloads[place] = { payload_of(codec, row[1]), row[2] }
  end
  return payloads
end

local function scheduled_of(worker, row)
  local codec = worker:payload_codec()
  for _, one in ipairs(row.scheduled) do
    one.payload = payload_of(codec, one.payload)
  end
  return { count = row.scheduled_total, deliver_at = row.deliver_at, payloads = row.scheduled }
end

-- A record without its payloads.
local function head(row, fields)
  local made = {}
  for _, field in ipairs(fields) do
    made[field] = row[field]
  end
  made.error = made.error and stored_error.loaded(made.error)
  return made
end

local function record(worker, row, fields)
  local made = head(row, fields)
  made.payloads = payloads_of(worker, row.payloads)
  if row.scheduled_total > 0 then
    made.scheduled = scheduled_of(worker, row)
  end
  return made
end

-- A record of explain, which reads no payloads.
local function known(row, fields)
  if not row then
    return nil
  end
  local made = head(row, fields)
  made.state = row.state
  return made
end

---`worker.queries`. The rev_ forms descend and take the greater bound first, as Redis does. Each gives nil and a
---seriatim.Error when Redis cannot be reached or refuses.
---@class seriatim.Queries
local Queries = {}
Queries.__index = Queries

---@param worker seriatim.Worker
---@return seriatim.Queries
function queries.new(worker)
  return setmetatable({ worker = worker }, Queries)
end

local function ask_rows(worker, kind, reverse, min, max, limit, shard, ids)
  return pool.ask(function(connection)
    local number = connection:number(worker:queue_settings())
    return connection:call("query", number, kind, reverse, min, max, limit, shard, ids, nil)
  end)
end

local function ask(worker, fields, kind, reverse, min, max, limit, shard, ids)
  local rows, err = ask_rows(worker, kind, reverse, min, max, limit, shard, ids)
  if not rows then
    return nil, err
  end
  local records = {}
  for place, row in ipairs(rows) do
    records[place] = record(worker, row, fields)
  end
  return records
end

local function range(self, fields, kind, reverse, min, max, options)
  return ask(self.worker, fields, kind, reverse, bound(min), bound(max), limit_of(options, DEFAULT_LIMIT), -1, nil)
end

local function fetched(self, fields, kind, ids)
  return ask(self.worker, fields, kind, false, nil, nil, MAX_LIMIT, -1, jobs.ids_bytes(ids))
end

local function scheduled_range(self, reverse, min, max, options)
  local given = validate.options(options, SCHEDULED_OPTIONS)
  local ids = given.id ~= nil and { jobs.id_bytes(given.id) } or nil
  local limit = limit_of({ limit = given.limit }, DEFAULT_LIMIT)
  local rows, err = ask_rows(self.worker, "range_by_deliver_at", reverse, bound(min), bound(max), limit, -1, ids)
  if not rows then
    return nil, err
  end
  local found = {}
  for place, row in ipairs(rows) do
    found[place] = scheduled_of(self.worker, row).payloads[1]
    found[place].id = row.id
  end
  return found
end

---Payloads whose deliver_at has not come, or that no claim has moved yet, by deliver_at.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.ScheduledOptions?  limit 10
---@return seriatim.ScheduledPayload[]?
---@return seriatim.Error? err
function Queries:range_by_deliver_at(min, max, options)
  return scheduled_range(self, false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.ScheduledOptions?  limit 10
---@return seriatim.ScheduledPayload[]?
---@return seriatim.Error? err
function Queries:rev_range_by_deliver_at(max, min, options)
  return scheduled_range(self, true, min, max, options)
end

-- definitions: queries, written by script/embed from core/definitions/operations.json

---Waiting ids, in the order of their bytes.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:range_by_id(min, max, options)
  return range(self, LIVING, "range_by_id", false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:rev_range_by_id(max, min, options)
  return range(self, LIVING, "range_by_id", true, min, max, options)
end

---Waiting ids, in the order in which they become due.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:range_by_perform_in(min, max, options)
  return range(self, LIVING, "range_by_perform_in", false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:rev_range_by_perform_in(max, min, options)
  return range(self, LIVING, "range_by_perform_in", true, min, max, options)
end

---Waiting ids that failed, in the order of their retry_count.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:range_by_retry_count(min, max, options)
  return range(self, LIVING, "range_by_retry_count", false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:rev_range_by_retry_count(max, min, options)
  return range(self, LIVING, "range_by_retry_count", true, min, max, options)
end

---The given ids that wait, are parked or have scheduled payloads, in the given order; unknown ones are left out.
---@param ids seriatim.Id[]
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:fetch(ids)
  return fetched(self, LIVING, "fetch", ids)
end

---Dead ids, in the order of their bytes.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.DeadRecord[]?
---@return seriatim.Error? err
function Queries:morgue_range_by_id(min, max, options)
  return range(self, DEAD, "morgue_range_by_id", false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.DeadRecord[]?
---@return seriatim.Error? err
function Queries:morgue_rev_range_by_id(max, min, options)
  return range(self, DEAD, "morgue_range_by_id", true, min, max, options)
end

---Dead ids, in the order of their last death.
---@param min seriatim.Bound
---@param max seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.DeadRecord[]?
---@return seriatim.Error? err
function Queries:morgue_range_by_updated_at(min, max, options)
  return range(self, DEAD, "morgue_range_by_updated_at", false, min, max, options)
end

---The same, descending.
---@param max seriatim.Bound
---@param min seriatim.Bound
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.DeadRecord[]?
---@return seriatim.Error? err
function Queries:morgue_rev_range_by_updated_at(max, min, options)
  return range(self, DEAD, "morgue_range_by_updated_at", true, min, max, options)
end

---The given ids that are dead, in the given order; unknown ones are left out.
---@param ids seriatim.Id[]
---@return seriatim.DeadRecord[]?
---@return seriatim.Error? err
function Queries:morgue_fetch(ids)
  return fetched(self, DEAD, "morgue_fetch", ids)
end

-- end of definitions

---What runs now.
---@param shard integer?  from 0; nil: in all
---@param options seriatim.QueryOptions?  limit 100,000
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:processing_data(shard, options)
  local place = shard == nil and -1 or validate.integer("shard", shard, 0, 4095)
  return ask(self.worker, LIVING, "processing_data", false, nil, nil, limit_of(options, MAX_LIMIT), place, nil)
end

---What an operator or on_exhausted park has stopped, by the time of it.
---@param options seriatim.QueryOptions?  limit 10
---@return seriatim.Record[]?
---@return seriatim.Error? err
function Queries:parked(options)
  return ask(self.worker, LIVING, "parked", false, nil, nil, limit_of(options, DEFAULT_LIMIT), -1, nil)
end

---Why the id is or is not running.
---@param id seriatim.Id
---@return seriatim.Explanation?
---@return seriatim.Error? err
function Queries:explain(id)
  local key, worker = jobs.id_bytes(id), self.worker
  local answer, err = pool.ask(function(connection)
    return connection:call("explain", connection:number(worker:queue_settings()), key, nil)
  end)
  if not answer then
    return nil, err
  end
  answer.job = known(answer.job, LIVING)
  answer.behind = known(answer.behind, LIVING)
  answer.dead = known(answer.dead, DEAD)
  answer.scheduled = answer.scheduled > 0 and { payloads_count = answer.scheduled, deliver_at = answer.deliver_at } or nil
  answer.deliver_at = nil
  for _, entry in ipairs(answer.history) do
    entry.error = entry.error and stored_error.loaded(entry.error)
  end
  return answer
end

validate.colons(Queries, "queries")

return queries
