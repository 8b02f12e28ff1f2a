-- What stands in for the pool and its connections in the test modes: queues in memory, by the rules of the core.

local codec = require "seriatim.client.codec"
local inspect = require "seriatim.client.inspect"
local stored_error = require "seriatim.client.stored_error"
local errors = require "seriatim.errors"
local events = require "seriatim.events"
local native = require "seriatim.native"
local execution = require "seriatim.server.execution"
local given = require "seriatim.testing.given"
local worker = require "seriatim.worker"

local unpack = table.unpack or unpack

local FOREVER = 8000000000000000 -- Unix microseconds: all times are over
local LATER = FOREVER + 1 -- what is put off until then, by 0 seconds or more, is not taken in the mode inline
local MICROSECONDS = 1000000
local NOW, DELAY = 0, 2

---A job that was pushed in a test mode.
---@class seriatim.testing.Pushed
---@field queue string
---@field id string
---@field payload any  as perform gets it
---@field score number?
---@field time number?  Unix seconds, as asked for by perform_in, perform_at, delay, deliver_at or deliver_in
---@field context table<string, string>
---@field on_waiting string?
---@field at number  Unix seconds at which it was pushed
local Pushed = inspect.class("seriatim.testing.Pushed", { "queue", "id", "payload", "score", "time", "on_waiting", "at" })

---A payload that is kept in a test mode.
---@class seriatim.testing.Waiting
---@field id string
---@field payload any
---@field score number?  nil: none was given with the push
---@field time number  Unix seconds at which its id is due; of a scheduled one its deliver_at; of a dead one when it died
---@field state "waiting"|"running"|"scheduled"|"parked"|"dead"
---@field retry_count integer
---@field context table<string, string>
---@field error string?
local Waiting = inspect.class("seriatim.testing.Waiting", { "id", "payload", "score", "time", "state", "retry_count", "error" })

---@class seriatim.testing.Memory
local Memory = {}
Memory.__index = Memory

local memories = {}

---now: Unix seconds. is_inline: each push runs at once.
---@param now fun(): number
---@param is_inline boolean
---@return seriatim.testing.Memory
function memories.new(now, is_inline)
  local made = setmetatable({ now = now, is_inline = is_inline }, Memory)
  made:clear_all()
  return made
end

-- ---- as a pool and as a connection

function Memory:take()
  return self
end

function Memory:give_back() end

function Memory:reset() end

function Memory:close() end

function Memory:url()
  return "memory"
end

function Memory:progress()
  return false
end

---@param queue_settings seriatim.QueueSettings
---@return integer
function Memory:number(queue_settings)
  local name = queue_settings.queue_name
  local known = self.queues[name]
  if not known or known.settings ~= queue_settings then
    known = { settings = queue_settings, number = errors.must(errors.guard(self.fake.queue, self.fake, queue_settings)) }
    self.queues[name] = known
    self.by_number[known.number] = known
  end
  return known.number
end

function Memory:number_of(name)
  local known = self.queues[name]
  return known and known.number or self:number { queue_name = name, shards_count = 0 }
end

---name: of what was called, which needs Redis.
function Memory:refuse(name)
  errors.misuse(name .. " needs Redis, and a mode of seriatim.testing has turned it off here; there are perform_async, push,"
    .. " actions:cancel, actions:reschedule, and in seriatim.testing pushed, jobs, dead_jobs, perform_one, drain and clear")
end

---An operation to its end, as seriatim.Connection has it.
function Memory:call(name, queue, ...)
  if name == "push" then
    local rows, _, _, _, handles = ...
    return self:push(queue, rows, handles)
  end
  if name == "pipeline" then
    return self:pipeline(queue)
  end
  if name == "action" then
    return self:action(queue, ...)
  end
  return self:refuse(name == "popped" and "a report on a delivery" or name)
end

---As native.link's.
function Memory:pipeline(pushes)
  local outcomes = {}
  for place, push in ipairs(pushes) do
    local added, folded, places, _, _, scheduled, stale, handles = self:push(push[1], push[2], push[6])
    outcomes[place] = { added, folded, places, false, false, scheduled, stale, handles }
  end
  return outcomes, false
end

function Memory:action(queue, name, texts)
  if name ~= "cancel" and name ~= "reschedule" then
    self:refuse("the action " .. name)
  end
  local changed
  if name == "cancel" then
    changed = errors.must(errors.guard(self.fake.cancel, self.fake, queue, texts[1]))
  else
    changed = errors.must(errors.guard(self.fake.reschedule, self.fake, queue, texts[1], texts[2], self:microseconds()))
  end
  return changed and 1 or 0
end

-- ---- pushes

---All workers of this Lua state, the latest first; before them those of types of events that have a handler.
local function all_workers()
  local list = events.workers()
  for place = #worker.all, 1, -1 do
    list[#list + 1] = worker.all[place].worker
  end
  return list
end

---The worker that has these settings, or had them before one changed; nil where what was pushed to is not in this Lua state.
local function worker_of(queue_settings)
  local same_name
  for _, each in ipairs(all_workers()) do
    if rawget(each, "_settings") == queue_settings then
      return each
    end
    same_name = same_name or each.queue_name == queue_settings.queue_name and each
  end
  return same_name or nil
end

---As it is stored where its codec cannot read it: that is what the run is to show. Without an owner, as of an event whose type has no
---handler here, it is the codec that events have.
local function payload_of(owner, bytes)
  local value = (owner and owner:payload_codec() or codec.of(nil)).load(bytes)
  if value == nil then
    return bytes
  end
  return value
end

local function asked_time(row, now)
  for _, at in ipairs { 4, 9 } do
    local when = row[at]
    if when and when ~= NOW then
      return row[at + 1] + (when == DELAY and now or 0)
    end
  end
end

local function pushed_of(owner, name, row, now)
  return setmetatable({
    queue = name,
    id = row[1],
    payload = payload_of(owner, row[2]),
    score = row[3] or nil,
    time = asked_time(row, now),
    on_waiting = row[7] or nil,
    context = row[8] and native.load(row[8]) or {},
    at = now,
  }, Pushed)
end

function Memory:push(queue, rows, handles)
  if self.is_inline then
    return self:push_inline(queue, rows, handles)
  end
  return self:keep(queue, rows, handles)
end

function Memory:keep(queue, rows, handles)
  local result = { errors.guard(self.fake.push, self.fake, queue, rows, handles, self:microseconds()) }
  if result[1] == nil then
    return errors.failure(result[2], result[3])
  end
  local refused, known, now = {}, self.by_number[queue].settings, self.now()
  for _, place in ipairs(result[3]) do
    refused[place] = true
  end
  local owner = worker_of(known)
  for place, row in ipairs(rows) do
    if not refused[place] then
      table.insert(self.was_pushed, pushed_of(owner, known.queue_name, row, now))
    end
  end
  return unpack(result, 1, 8)
end

---Jobs of one id in the same push fold, as they do in a queue. An id runs once for each push.
function Memory:push_inline(queue, rows, handles)
  local known = self.by_number[queue].settings
  local once, owner = memories.new(self.now, false), worker_of(known)
  local result = { once:keep(once:number(known), rows, handles) }
  for _, job in ipairs(once.was_pushed) do
    table.insert(self.was_pushed, job)
  end
  while owner and once:run_at(owner, FOREVER, LATER, true) do end
  return unpack(result, 1, 8)
end

-- ---- runs

---Of the time of the test, which may stand still.
function Memory:microseconds()
  return math.floor(self.now() * MICROSECONDS)
end

---One batch, with what a server does around it. time: at which it ends.
local function run(self, owner, time, shard, rows, raises)
  local first
  local function failed(raised)
    first = first or { raised }
  end
  local function settle(row, outcome)
    self:settle(owner, row, outcome, time)
  end
  local workers = { owner }
  execution.run(workers, given.new("run", shard, rows, settle, failed))
  local told = self:exhausted(owner)
  while #told > 0 do
    execution.run(workers, given.new("exhausted", shard, told, function() end, function() end))
    told = self:exhausted(owner)
  end
  if first and raises then
    error(first[1], 0)
  end
end

---What was cleared while it ran has no outcome.
function Memory:settle(owner, row, outcome, time)
  local queue = self:number(owner:queue_settings())
  local settled, kind, message =
    errors.guard(self.fake.settle, self.fake, queue, row[1], row[2], outcome[1], outcome[2], outcome[3], outcome[4], time)
  if not settled and kind ~= "STALE" then
    error(errors.new(kind, message), 0)
  end
end

function Memory:exhausted(owner)
  return errors.must(errors.guard(self.fake.take_exhausted, self.fake, self:number(owner:queue_settings())))
end

---Runs what is due at this time. ended: the time at which the run ends.
---@return boolean  false: nothing was
function Memory:run_at(owner, time, ended, raises)
  local queue = self:number(owner:queue_settings())
  local shard, rows = errors.must(errors.guard(self.fake.take, self.fake, queue, owner.batch_size, time))
  if #rows == 0 then
    return false
  end
  run(self, owner, ended, shard, rows, raises)
  return true
end

---The worker whose batch comes next, and when that is due.
function Memory:next_due(owners)
  local first, first_at
  for _, owner in ipairs(owners) do
    local at = events.runs(owner) and self.fake:next(self:number(owner:queue_settings()), self:microseconds())
    if at and (not first_at or at < first_at) then
      first, first_at = owner, at
    end
  end
  return first, first_at
end

---Runs the next batch, at the time when it is due. owner: nil: of all queues to which something was pushed.
---@return boolean  false: nothing is due by the limit
function Memory:run_next(owner, limit, raises)
  while true do
    local first, at = self:next_due(owner and { owner } or self:owners())
    if not first or (limit and at > limit) then
      return false
    end
    at = math.max(self:microseconds(), at)
    if self:run_at(first, at, at, raises) then
      return true
    end -- else what was due was dropped, or became due later
  end
end

function Memory:owners()
  local names, owners = {}, {}
  for name in pairs(self.queues) do
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    owners[#owners + 1] = worker_of(self.queues[name].settings)
  end
  return owners
end

---@param at number?  Unix seconds
---@return integer batches
function Memory:drain(owner, at, raises)
  local count, limit = 0, at and math.floor(at * MICROSECONDS)
  while self:run_next(owner, limit, raises) do
    count = count + 1
  end
  return count
end

-- ---- what is kept

function Memory:pushed(owner)
  local found = {}
  for _, job in ipairs(self.was_pushed) do
    if not owner or job.queue == owner.queue_name then
      found[#found + 1] = job
    end
  end
  return found
end

---is_dead: those in the morgue; else all others.
function Memory:jobs(owner, is_dead)
  local found = {}
  for _, row in ipairs(errors.must(errors.guard(self.fake.rows, self.fake, self:number(owner:queue_settings())))) do
    if (row.state == "dead") == is_dead then
      row.payload = payload_of(owner, row.payload)
      row.context = row.context and native.load(row.context) or {}
      row.time = row.time / MICROSECONDS
      row.error = row.error and stored_error.loaded(row.error)
      found[#found + 1] = setmetatable(row, Waiting)
    end
  end
  return found
end

function Memory:clear(owner)
  errors.must(errors.guard(self.fake.clear, self.fake, self:number(owner:queue_settings())))
  local others = {}
  for _, job in ipairs(self.was_pushed) do
    if job.queue ~= owner.queue_name then
      others[#others + 1] = job
    end
  end
  self.was_pushed = others
end

function Memory:clear_all()
  self.fake = errors.must(errors.guard(native.fake))
  self.queues, self.by_number, self.was_pushed = {}, {}, {}
end

return memories
