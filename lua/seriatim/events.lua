-- Delayed events: each type of event is a queue NAME:TYPE, whose handler ends an event by returning true.
--
--     local events = seriatim.events "billing"
--
--     events:on("InvoiceDue", function(event, context)
--       remind(event.invoice)
--       return true
--     end, { max_running = 5 })
--
--     events:enqueue("InvoiceDue", { id = "i-1", event = { invoice = 1 }, delay = 86400 })
--
-- Every server of the application runs the handlers, beside the workers that it was given. Each thread of a server has a Lua
-- state of its own, which loads the application again. A handler that is given while the server runs goes to the other states
-- as code, so it may use globals and what it requires, but no local variable of the code around it.

local push = require "seriatim.client.push"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local portable = require "seriatim.portable"
local worker = require "seriatim.worker"

local ATTEMPTS = 70
local MAX_RUNNING = 10
local LONGEST_DELAY = 100 * 365.25 * 86400 -- seconds

---@class seriatim.EventOptions
---@field max_running integer?  10; how many events of the type a process handles at once, 1 to 100
---@field attempts integer?  70; after how many runs an event that always fails goes to the morgue, 1 to 100
---seconds until the next run: "delayed_queue", the table of the library of that name; a function that gets how many retries
---there were (from 0); or a list, whose last element goes for all later ones
---@field retry_in nil|"delayed_queue"|(fun(count: integer): number)|number[]
---@field fold nil|"last"|"first"|"merge"|"list"  "last"; which events of one id are kept while it waits

---@class seriatim.Event
---@field id string|integer
---@field event any  what JSON can say, but nil
---@field delay number?  0; seconds from now
---@field context table<string, string>?  given to the handler with the event

---The events of one name; the same object for each call of seriatim.events with that name.
---@class seriatim.Events
---@field name string
local Events = {}
Events.__index = Events

local events = {}

local named = {} -- the objects of this state
local registered = {} -- workers of the types that have a handler, in the order of `on`
local of_events = setmetatable({}, { __mode = "k" }) -- workers of all types, as keys
local handling = {} -- of each worker that has, or had, a handler: { name, kind, handler, options }

---The server that this state belongs to, or drives.
---@class seriatim.EventServer
---@field runner table  its runner or node
---@field workers table<integer, seriatim.Worker>  by their numbers
---@field is_restricted boolean  it serves only the queues that it was told at its start
---@field has_states boolean  several Lua states take its deliveries
---@field changed fun()?  called when a worker was added or withdrawn
---@field known integer?  number of the last change that this state has learned of

---@type seriatim.EventServer?
local server

---@param name string  what the names of the queues begin with; without ":"
---@return seriatim.Events
function events.new(name)
  validate.text("name", name, 1, 500)
  if name:find(":", 1, true) then
    errors.misuse(('name must not contain ":", which separates it from the type, but is %s'):format(validate.shown(name)))
  end
  named[name] = named[name] or setmetatable({ name = name, types = {} }, Events)
  return named[name]
end

---@return seriatim.Worker[]
function events.workers()
  local list = {}
  for place, made in ipairs(registered) do
    list[place] = made
  end
  return list
end

local function place_in(list, made)
  for place, each in pairs(list) do
    if each == made then
      return place
    end
  end
end

---False: it is of a type of events that has no handler, so that what was enqueued waits. For the library's own use.
---@param made seriatim.Worker
---@return boolean
function events.runs(made)
  return not of_events[made] or place_in(registered, made) ~= nil
end

local function register(made)
  if not place_in(registered, made) then
    registered[#registered + 1] = made
  end
end

local function unregister(made)
  local place = place_in(registered, made)
  if place then
    table.remove(registered, place)
  end
end

-- ---- handlers

local function back_off_of(retry_in)
  if retry_in == nil or retry_in == "delayed_queue" then
    return native.back_off_of_events
  elseif validate.is_callable(retry_in) then
    return retry_in
  end
  local rule, seconds = '"delayed_queue", a function, or a list of seconds', {}
  if #validate.list("retry_in", retry_in, rule) == 0 then
    validate.refuse("retry_in", rule, retry_in)
  end
  for place, each in ipairs(retry_in) do
    seconds[place] = validate.seconds(("retry_in[%d]"):format(place), each, 0, LONGEST_DELAY)
  end
  return function(count)
    return seconds[math.min(count + 1, #seconds)]
  end
end

---Runs one event. True: it has ended.
local function run(handler, batch, id, event, context)
  local result, err = handler(event, context)
  if result == true then
    return true
  end
  local text = ("the handler returned %s, not true"):format(validate.describe(result))
  batch:fail(id, err ~= nil and ("%s: %s"):format(text, tostring(err)) or text)
  return false
end

---What is done of several events of an id stays done when a later one fails.
local function run_all(handler, batch)
  for _, id in ipairs(batch.ids) do
    local payloads, contexts = batch.payloads_by_id[id], batch:contexts(id)
    for place, event in ipairs(payloads) do
      if not run(handler, batch, id, event, contexts[place]) then
        break
      end
      if place < #payloads then
        batch:checkpoint(id, place)
      end
    end
  end
end

---Not among the workers that a server runs unasked.
local function new_worker(queue_name)
  local made = worker.define {
    name = queue_name, fold = "last", max_running = MAX_RUNNING, max_retry_count = ATTEMPTS - 1,
  }
  table.remove(worker.all)
  of_events[made] = true
  rawset(made, "_assumed", true) -- until the type is handled for the first time
  return made
end

---The worker of the type's queue, for its queries, actions and metrics.
---@param kind string  the type
---@return seriatim.Worker
function Events:worker(kind)
  validate.text("type", kind, 1, 500)
  self.types[kind] = self.types[kind] or new_worker(self.name .. ":" .. kind)
  return self.types[kind]
end

---Makes the worker of a type run the handler. options: checked, as of Events:on.
local function handle(made, given)
  rawset(made, "_assumed", nil) -- before the settings, which are put together anew
  made.fold, made.max_running, made.max_retry_count = given.fold, given.max_running, given.attempts - 1
  made.retry_in = back_off_of(given.retry_in)
  made.perform = function(_, batch)
    events.learn()
    run_all(handling[made].handler, batch)
  end
  handling[made] = given
end

-- ---- a server that runs

---Learns which handlers other states of the server have given and taken away.
function events.learn()
  while server do
    local number, place, text = server.runner:change(server.known)
    if not number then
      return
    end
    server.known = number
    local made = rawget(server.workers, place)
    if text then
      local given = portable.restored(text)
      made = events.new(given.name):worker(given.kind)
      handle(made, given)
      rawset(server.workers, place, made)
      register(made)
    elseif made then
      unregister(made)
    end
  end
end

---Does the server serve its queue, or will it when the worker has a handler?
local function may_serve(made)
  return server and (not server.is_restricted or place_in(server.workers, made) ~= nil)
end

---For the other states of the server, if there are any. Raises misuse: a function cannot go to them.
local function text_of(given)
  return server.has_states and portable.text(given) or nil
end

---The server serves the worker, which has a handler, from now on.
local function serve(made, text)
  local number = errors.must(errors.guard(server.runner.worker, server.runner, made:queue_settings(), text))
  rawset(server.workers, number, made)
  server.changed()
end

---False: the server, whose state has not learned of it, handled it no more.
local function withdraw(made)
  local number = place_in(server.workers, made)
  local withdrawn = not number or errors.must(errors.guard(server.runner.withdraw, server.runner, number))
  server.changed()
  return withdrawn
end

---A server runs from now on what is registered; for the library's own use. Where the state is its first one, `on` and `off` may
---have been called since it chose its workers.
---@param made seriatim.EventServer
---@param is_first boolean
function events.served_by(made, is_first)
  server = made
  server.known, server.changed = 0, server.changed or function() end
  setmetatable(server.workers, {
    __index = function(workers, number)
      events.learn()
      return rawget(workers, number)
    end,
  })
  if not is_first then
    return
  end
  for _, each in pairs(server.workers) do
    if handling[each] and not place_in(registered, each) then
      withdraw(each)
    end
  end
  for _, each in ipairs(registered) do
    if may_serve(each) and not place_in(server.workers, each) then
      serve(each, text_of(handling[each]))
    end
  end
end

---No server runs any more.
function events.served_by_none()
  events.learn()
  server = nil
end

-- ---- types

---Handles the events of a type. A server that runs serves it from then on.
---@param kind string  the type
---@param handler fun(event: any, context: table<string, string>): any  only true ends the event; anything else, and what it raises,
---are failures. Given to a server that runs, it and the function retry_in must not use local variables of the code around them
---@param options seriatim.EventOptions?
---@return seriatim.Events
function Events:on(kind, handler, options)
  options = validate.options(options, { "max_running", "attempts", "retry_in", "fold" })
  local made = self:worker(kind)
  local given = { name = self.name, kind = kind, handler = validate.callable("handler", handler), fold = options.fold or "last" }
  given.max_running = validate.integer("max_running", options.max_running == nil and MAX_RUNNING or options.max_running, 1, 100)
  given.attempts = validate.integer("attempts", options.attempts == nil and ATTEMPTS or options.attempts, 1, 100)
  given.retry_in = options.retry_in
  back_off_of(given.retry_in)
  events.learn()
  if place_in(registered, made) then
    errors.misuse(("%s has a handler already"):format(validate.shown(made.queue_name)))
  end
  local text = may_serve(made) and text_of(given) or nil
  handle(made, given)
  if may_serve(made) then
    local served, err = pcall(serve, made, text)
    if not served then
      server.known = 0 -- where another state was first, the worker runs the handler of that state
      events.learn()
      error(err, 0)
    end
  end
  register(made)
  return self
end

---Handles the events of the type no more: the server that this state belongs to claims none, lets those that run finish, and hands
---the queue over to the servers of other processes that handle the type. What is enqueued stays.
---@param kind string  the type
---@return boolean  false: the type has no handler, or the server handles it no more
function Events:off(kind)
  local made = self:worker(kind)
  events.learn()
  if not place_in(registered, made) then
    return false
  end
  unregister(made)
  return not server or withdraw(made)
end

---Enqueues an event. If an event of this type and id waits already, its time stays, and the queue's fold decides which event is
---kept.
---@param kind string  the type
---@param job seriatim.Event
---@return seriatim.PushResult?  nil: Redis cannot be reached or refuses
---@return seriatim.Error? err
function Events:enqueue(kind, job)
  local given = validate.options(job, { "id", "event", "delay", "context" })
  for _, field in ipairs { "id", "event" } do
    if given[field] == nil or given[field] == native.null then
      errors.misuse(("enqueue: %s is %s"):format(field, given[field] == nil and "missing" or "null"))
    end
  end
  return push.push(self:worker(kind), {
    { id = given.id, payload = given.event, delay = given.delay or 0, context = given.context, on_waiting = "keep" },
  })
end

return events
