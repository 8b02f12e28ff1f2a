-- Two-phase commit sets, with the calls of the Redis::Ick gem. A set holds members with scores. Producers add members; of a
-- member that is there already the lower score counts. A consumer reserves the members with the lowest scores, processes them and
-- commits them; until then every reserve gives them again. A member that is added again while it is reserved is reserved once more
-- after the commit.
--
--     local ick = seriatim.ick()
--     ick:ickadd("dirty", os.time(), "doc-1")
--     local batch, err = ick:ickreserve("dirty", 100)
--     local members = {}
--     for place, pair in ipairs(batch) do members[place] = pair[1] end
--     ick:ickcommit("dirty", members)

local blocks = require "seriatim.client.blocks"
local jobs = require "seriatim.client.jobs"
local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"

local CONSUMER = "consumer"
local RESERVE_TIME = 30
local MAX_SIZE = 2147483647
local MAX_CONSUMER = 512 -- bytes

---@class seriatim.IckPair
---@field [1] string  the member
---@field [2] number  its score

---@class seriatim.IckStats
---@field key string
---@field pset_key string
---@field cset_key string
---@field ver string
---@field cset_size integer
---@field pset_size integer
---@field total_size integer
---@field consumers integer  that hold members
---@field pset_min number?
---@field pset_max number?
---@field cset_min number?
---@field cset_max number?
---@field total_min number?
---@field total_max number?

---@class seriatim.IckStatsd
---@field increment fun(self, name: string)
---@field timing fun(self, name: string, value: number)  durations are in milliseconds

---@class seriatim.IckOptions
---@field url string?  nil: the Redis of the module
---@field statsd seriatim.IckStatsd?  gets the metrics of the calls
---who reserves, "consumer"; a process that reserves as the same consumer takes over at once what the last one has not committed
---@field consumer string?
---@field reserve_time number?  30; seconds for which no other consumer gets what this one reserves

---An object belongs to one consumer: it keeps the token of its last reserve of each set, and what it commits is what it has
---reserved under that token. Light threads that reserve need an object and a consumer name each.
---@class seriatim.Ick
local Ick = {}
Ick.__index = Ick

---The value of a call that was made in pipelined.
---@class seriatim.IckFuture
local Future = {}
Future.__index = Future

---@return any
function Future:value()
  if not self.ready then
    errors.misuse("the value of this future is there when the function of pipelined has ended")
  end
  return self.result
end

local ick = {}

local function statsd_of(statsd)
  if statsd ~= nil and not (type(statsd) == "table" and validate.is_callable(statsd.increment) and validate.is_callable(statsd.timing)) then
    validate.refuse("statsd", "an object with increment and timing, or nil", statsd)
  end
  return statsd
end

---@param options seriatim.IckOptions?
---@return seriatim.Ick
function ick.new(options)
  options = validate.options(options, { "url", "statsd", "consumer", "reserve_time" })
  return setmetatable({
    lender_of = options.url ~= nil and pool.of(validate.url("url", options.url, "a URL")) or nil,
    statsd = statsd_of(options.statsd),
    consumer = validate.text("consumer", options.consumer == nil and CONSUMER or options.consumer, 1, MAX_CONSUMER),
    reserve_time = validate.seconds("reserve_time", options.reserve_time == nil and RESERVE_TIME or options.reserve_time, 0.1, 86400),
    tokens = {},
    pipelines = blocks.new(), -- each is the list of the futures of its calls
  }, Ick)
end

-- ---- Arguments ------------------------------------------------------------------------------------

local function key(field, value)
  if type(value) ~= "string" then
    validate.refuse(field, "a string", value)
  end
  return value
end

---The arguments, or the list that is the only one.
local function listed(...)
  local first = ...
  if select("#", ...) == 1 and type(first) == "table" then
    return validate.list("members", first)
  end
  return { ... }, select("#", ...)
end

local function members_of(...)
  local given, count = listed(...)
  local members = {}
  for place = 1, count or #given do
    members[place] = jobs.id_bytes(given[place], ("member %d"):format(place))
  end
  return members
end

local function pairs_of(...)
  local given, count = listed(...)
  count = count or #given
  if count % 2 == 1 then
    errors.misuse(("ickadd: a score and a member for each pair must be given, not %d arguments"):format(count))
  end
  local members, scores = {}, {}
  for place = 1, count / 2 do
    local score = validate.number(given[2 * place - 1])
    if not score then
      validate.refuse(("the score of member %d"):format(place), "a number", given[2 * place - 1])
    end
    scores[place] = score
    members[place] = jobs.id_bytes(given[2 * place], ("member %d"):format(place))
  end
  return members, scores
end

---max_size and backwash; options: {backwash = true} or nil.
local function size_of(field, size, options)
  local backwash = validate.options(options, { "backwash" }).backwash
  return validate.integer(field, size == nil and 0 or size, 0, MAX_SIZE), backwash ~= nil and validate.flag("backwash", backwash)
end

-- ---- Calls ----------------------------------------------------------------------------------------

---The names of the gem, and profile.ick.time.ickdel beside profile.ick.ickdel.time.
local function time(self, metric, begun)
  if not self.statsd or metric == "import" then
    return
  end
  local took = native.now_ms() - begun
  self.statsd:timing("profile.ick.time." .. metric, took)
  if metric == "ickdel" or metric == "ickunlink" then
    self.statsd:timing(("profile.ick.%s.time"):format(metric), took)
  end
end

local function count(self, metric, sizes)
  if self.statsd and metric ~= "import" then
    self.statsd:increment(("profile.ick.%s.calls"):format(metric))
    for name, value in pairs(sizes) do
      self.statsd:timing(("profile.ick.%s.%s"):format(metric, name), value)
    end
  end
  return native.now_ms()
end

local function run(self, calls)
  pool.refuse_in_tests("ick")
  return pool.ask(function(connection)
    return connection:call("ick", self.consumer, self.reserve_time, calls, nil)
  end, self.lender_of)
end

---One call, now or with the other calls of a pipeline. read: gives the value of a result.
local function request(self, metric, name, call, sizes, read)
  if getmetatable(self) ~= Ick then
    errors.misuse(("%s needs a colon, as in ick:%s(...)"):format(metric, metric))
  end
  local sent = { metric == "ickunlink" and "ickdel" or metric, key("name", name), self.tokens[name] or 0 }
  sent[4], sent[5], sent[6], sent[7] = call.size or 0, call.backwash or false, call.members or {}, call.scores
  local begun = count(self, metric, sizes)
  local waiting = self.pipelines:current()
  if waiting then
    local future = setmetatable({ call = sent, read = read }, Future)
    table.insert(waiting, future)
    time(self, metric, begun)
    return future
  end
  local rows, err = run(self, { sent })
  time(self, metric, begun)
  if not rows then
    return nil, err
  end
  return read(rows[1])
end

local function reserved(self, name)
  return function(row)
    if row.token > 0 then
      self.tokens[name] = row.token
    end
    return row.pairs
  end
end

local function added(row) return { row.added, row.lowered } end
local function deleted(row) return row.deleted end

---Adds members: ick:ickadd(name, score, member, score, member, ...), or the same in one list.
---@param name string
---@param ... any
---@return integer[]?  {new members, lowered scores}
---@return seriatim.Error? err
function Ick:ickadd(name, ...)
  local members, scores = pairs_of(...)
  return request(self, "ickadd", name, { members = members, scores = scores }, { pairs = #members }, added)
end

---Reserves members until this consumer holds max_size of them. backwash: what it holds goes back first, so that the lowest of
---all are reserved.
---@param name string
---@param max_size integer?  0
---@param options {backwash: boolean?}?
---@return seriatim.IckPair[]?  the max_size lowest that it holds
---@return seriatim.Error? err
function Ick:ickreserve(name, max_size, options)
  local size, backwash = size_of("max_size", max_size, options)
  return request(self, "ickreserve", name, { size = size, backwash = backwash }, { max_size = size }, reserved(self, name))
end

---Ends the reservations of these members, or of a list of them. Members that this object has not reserved are ignored.
---@param name string
---@param ... any
---@return integer?  how many were ended
---@return seriatim.Error? err
function Ick:ickcommit(name, ...)
  local members = members_of(...)
  return request(self, "ickcommit", name, { members = members }, { members = #members }, function(row) return row.ended end)
end

---ickcommit of a list of members, then ickreserve, in one call.
---@param name string
---@param reserve_size integer
---@param members any[]?  nil: none
---@param options {backwash: boolean?}?
---@return seriatim.IckPair[]?
---@return seriatim.Error? err
function Ick:ickexchange(name, reserve_size, members, options)
  local size, backwash = size_of("reserve_size", reserve_size, options)
  local given = members_of(members == nil and {} or validate.list("members", members))
  local sizes = { reserve_size = size, commit_members = #given }
  return request(self, "ickexchange", name, { size = size, backwash = backwash, members = given }, sizes, reserved(self, name))
end

---@param name string
---@return seriatim.IckStats?  nil without an error: there is no such set
---@return seriatim.Error? err
function Ick:ickstats(name)
  return request(self, "ickstats", name, {}, {}, function(row)
    if row.stats then
      row.stats.key = name
    end
    return row.stats
  end)
end

---Deletes the set with its reservations.
---@param name string
---@return integer?  0 to 3: how many of the set, its members to be reserved and its reserved members there were
---@return seriatim.Error? err
function Ick:ickdel(name)
  return request(self, "ickdel", name, {}, {}, deleted)
end

---As ickdel: both free the memory in another thread of Redis.
---@param name string
---@return integer?
---@return seriatim.Error? err
function Ick:ickunlink(name)
  return request(self, "ickunlink", name, {}, {}, deleted)
end

---Adds all members of a set that Redis::Ick has stored in the same Redis at the key `from` (nil: name). Only reads the keys of
---the gem.
---@param name string
---@param from string?
---@return integer[]?  {new members, lowered scores}
---@return seriatim.Error? err
function Ick:import(name, from)
  return request(self, "import", name, { members = { key("from", from == nil and name or from) } }, {}, added)
end

---Sends the calls that the function makes together. Each of them returns a future at once. Calls of other coroutines are not
---part of it and run at once. A commit ends what this object reserved before the pipeline, not what the pipeline reserves.
---@param calls fun(ick: seriatim.Ick)
---@return any[]?  the values of the calls, in their order
---@return seriatim.Error? err
function Ick:pipelined(calls)
  if self.pipelines:current() then
    errors.misuse("pipelined must not be called inside pipelined")
  end
  local waiting = {}
  self.pipelines:enter(waiting, calls, self)
  local sent, values = {}, {}
  for place, future in ipairs(waiting) do
    sent[place] = future.call
  end
  local rows, err = run(self, sent)
  if not rows then
    return nil, err
  end
  for place, future in ipairs(waiting) do
    future.result, future.ready = future.read(rows[place]), true
    values[place] = future.result
  end
  return values
end

return ick
