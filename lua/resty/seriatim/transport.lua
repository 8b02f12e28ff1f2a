-- How a connection reaches Redis inside nginx: each operation takes a cosocket of nginx's own pool of idle ones and never
-- blocks. It keeps the deadlines and the pauses of the core's link; unanswered pushes are sent again, and their token makes
-- them apply once.

local masters = require "resty.seriatim.masters"
local phases = require "resty.seriatim.phases"
local places = require "resty.seriatim.places"
local socket = require "resty.seriatim.socket"
local wakes = require "resty.seriatim.wakes"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local MAX_PAYLOAD = 0 -- the core's default, 1 MiB
local LIMIT_MS = 30000 -- of any operation but a push, from its last answer
local FIRST_LIMIT_MS = 5000 -- of an operation before the first connection of the nginx worker to this URL: a wrong one shows soon
local QUEUE = 100000 -- operations of an nginx worker that may wait for a free connection
local READ_BYTES = 65536
local UNHEARD_MS = 100 -- the most that a pop sleeps when no message can wake it
local WEB_SIZE = 2 -- connections of an nginx worker for what the dashboard reads, and for what it changes, so that none waits for another
local WEB_READS, WEB_CHANGES = "seriatim-web:", "seriatim-web-changes:" -- their pools
local WEB_POLLS = "seriatim-web-polls:" -- the pool of consumers' pops that wait: a thousand may ask at once
local WEB_CONSUMERS, WEB_CONSUMERS_SIZE = "seriatim-web-consumers:", 4 -- that of their other requests, which bulk actions must not hold up
local CONSUME = "/api/v1/consume/" -- what the paths of consumers begin with
local WEB_WAIT_MS = 1000 -- for one of the connections of the dashboard, or pool_timeout if that is longer
local WEB_LIMIT_MS = 4500 -- the core's, for a request of the dashboard: less than its reads have, so that they tell the cause

local LEFT = "CLOSED" -- the end of a change whose client has closed its connection to nginx
local AT_ONCE = { PROTOCOL = true, IO = true, TIMEOUT = true } -- the end of an open connection that needs no pause

---@type seriatim.TransportMaker
local transport = {}

---@class seriatim.CosocketTransport: seriatim.Transport
local Transport = {}
Transport.__index = Transport

local was_up = {} -- by URL: the nginx worker was connected to it
local in_use = setmetatable({}, { __mode = "k" }) -- the pools of sockets; those of killed requests vanish

---@param url string
---@param namespace string
---@param url_from string?  the setting or variable that holds the URL
---@return seriatim.CosocketTransport?
---@return seriatim.Error? err
function transport.open(url, namespace, url_from)
  local parsed, kind, message = errors.guard(socket.parse, url)
  if not parsed then
    return errors.failure(kind, message)
  end
  local client
  client, kind, message = errors.guard(native.client, namespace, "seriatim-client", MAX_PAYLOAD)
  if not client then
    return errors.failure(kind, message)
  end
  parsed.from = url_from
  if parsed.has_sentinels then
    client:expect_master()
  end
  for _, seed in ipairs(parsed.hosts or {}) do
    client:seed(seed.host, seed.port)
  end
  return setmetatable({ client = client, address = parsed }, Transport)
end

local function begin(client, name, ...)
  local begun, kind, message = errors.guard(client[name], client, ...)
  if not begun then
    return errors.failure(kind, message)
  end
  return true
end

---That all places of the pool were taken is a kind of its own, unless the outcome of a push is unknown.
local function ended(full, first, err, ...)
  if full and errors.is(err, "TIMEOUT") then
    return nil, errors.new("POOL_TIMEOUT", err.message)
  end
  return first, err, ...
end

---The pool of sockets for an operation of the dashboard.
local function web_pool_of(request)
  if request.method ~= "POST" then
    return WEB_READS
  elseif request.host_waits == 0 then
    return WEB_POLLS
  end
  return request.path:sub(1, #CONSUME) == CONSUME and WEB_CONSUMERS or WEB_CHANGES
end

---Begins an operation of seriatim.Operations and goes on with it until it has ended. The last argument is the limit in
---seconds; nil: as long as a link allows.
---@param name string
---@return any ...  its result, or nil and a seriatim.Error
function Transport:call(name, ...)
  local refusal = phases.refusal()
  if refusal then
    return nil, refusal
  end
  local arguments, count = { ... }, select("#", ...)
  if name ~= "web_go_on" then -- that keeps those of its request
    self.web_pool = name == "web" and web_pool_of(arguments[2]) or nil
    self.has_left = self.web_pool ~= WEB_READS and self.web_pool and arguments[2].has_left or nil
  end
  self.waiter, self.is_heard = nil, false
  self.client:listens(false)
  local begun, err = begin(self.client, name, unpack(arguments, 1, count - 1))
  if not begun then
    return nil, err
  end
  return ended(self:drive(arguments[count] or self.client:limit()), errors.outcome(errors.guard(self.client.result, self.client)))
end

---Checks the operation's arguments as call does; sends nothing.
---@param name string
---@return true?, seriatim.Error? err
function Transport:check(name, ...)
  local begun, err = begin(self.client, name, ...)
  if begun then
    self:reset()
  end
  return begun, err
end

function Transport:under_way()
  return self.client:status() == "again"
end

-- ---- deadlines

---Of one operation: when it began, when it was last answered, when it must have ended, how many answers there were, and why the last
---connection failed.
local function new_run(limit, answers)
  local now = native.now_ms()
  return { first = now, began = now, ends = limit and now + limit * 1000 or math.huge, failures = 0, answers = answers }
end

function Transport:note_connected()
  was_up[self.address.redacted] = true
end

---Milliseconds that it may still take. A push has a limit of its own, which answers do not prolong.
function Transport:patience(run)
  local limit = not was_up[self.address.redacted] and FIRST_LIMIT_MS or self.client:limit() and math.huge or LIMIT_MS
  local ends = run.ends
  if self.web_pool then
    local whole = self.client:limit() -- once it pushes
    limit, ends = math.min(limit, WEB_LIMIT_MS), whole and math.min(ends, run.first + whole * 1000) or ends
  end
  return math.min(run.began + limit, ends) - native.now_ms()
end

function Transport:give_up(run)
  local text, kind, message = ("no answer from %s in time"):format(self.address.redacted), run.kind, run.message
  if not kind then
    kind, message = self.client:held_up()
  end
  self.client:give_up(kind or "TIMEOUT", message or text)
end

---The connection has ended, or could not be made.
function Transport:lose(run, kind, message, pauses)
  socket.lost(self.address)
  if socket.FINAL[kind] then
    self.client:give_up(kind, message)
    return
  end
  self.client:disconnected()
  run.kind, run.message = kind, message
  if run.failures > 0 or pauses then
    local pause = socket.pause_ms(run.failures + 1)
    ngx.sleep(math.max(math.min(pause, self:patience(run)), 1) / 1000)
  end
  run.failures = run.failures + 1
end

-- ---- one connection after another

---True where it gave up for want of a free connection.
function Transport:drive(limit)
  local run = new_run(limit, self.client:answers())
  while self:under_way() do
    local asleep_ms = self.client:sleeps()
    if asleep_ms then
      self:rest(run, asleep_ms)
    elseif self:patience(run) < 1 then
      self:give_up(run)
    elseif self.address.is_cluster then
      self:attempt_masters(run)
    else
      self:attempt(run)
    end
  end
  return run.full
end

function Transport:pool_options()
  local web_size = self.web_pool == WEB_CONSUMERS and WEB_CONSUMERS_SIZE or WEB_SIZE
  return {
    pool = (self.web_pool or "seriatim:") .. self.address.redacted,
    pool_size = self.web_pool and web_size or settings.client_pool_size,
    backlog = (self.web_pool or settings.pool_timeout > 0) and QUEUE or 0,
  }
end

---Is every connection of the pool in use? Then the timeout does not mean that Redis is away.
local function is_full(err, options)
  local count = 0
  for _, name in pairs(in_use) do
    count = count + (name == options.pool and 1 or 0)
  end
  return err:find("too many waiting connect operations", 1, true) or count >= options.pool_size
end

---The milliseconds for a free connection.
function Transport:pool_patience(run)
  local least = self.web_pool and WEB_WAIT_MS or 1
  return math.max(1, math.min(self:patience(run), math.max(settings.pool_timeout * 1000, least)))
end

---Ends the operation for want of a free connection.
function Transport:give_up_full(run, patience, size)
  if self.web_pool then -- as the visitor is to read it: no setting changes the size
    self.client:give_up("CLOSED", "the dashboard is busy")
    return
  end
  local text = "no free connection in %.3g s: all %d are in use (client_pool_size, of each nginx worker)"
  run.full = true
  self.client:give_up("TIMEOUT", text:format(patience / 1000, size))
end

function Transport:connect(run)
  local limit = math.max(1, self:patience(run))
  local patience = self:pool_patience(run)
  local options = self:pool_options()
  -- nginx has one timeout for a free connection and for making one. Where nothing waits for a free one, it is for Redis alone.
  local sock, kind, message = socket.connect(self.address, options.backlog > 0 and patience or limit, options, nil, limit)
  if sock then
    in_use[sock] = options.pool
    return sock
  end
  if (kind == "TIMEOUT" or options.backlog == 0) and is_full(message, options) then
    self:give_up_full(run, patience, options.pool_size)
    return nil
  end
  self:lose(run, kind, message, true)
end

---On a cluster.
function Transport:attempt_masters(run)
  local patience, options = self:pool_patience(run), self:pool_options()
  local place = places.enter(options.pool, options.pool_size, options.backlog > 0 and patience or 0)
  if not place then
    return self:give_up_full(run, patience, options.pool_size)
  end
  masters.exchange(self, run, options)
  place:leave()
end

function Transport:attempt(run)
  local sock = self:connect(run)
  if not sock then
    return
  end
  local kind, message = self:greet(sock)
  if not kind then
    self:note_connected()
    kind, message = self:exchange(sock, run)
  end
  in_use[sock] = nil
  if not kind then
    sock:setkeepalive(socket.IDLE_MS)
    return
  end
  sock:close()
  if kind == LEFT then
    return
  end
  self:lose(run, kind, message, not AT_ONCE[kind])
end

function Transport:greet(sock)
  local address = self.address
  local is_fresh = sock:getreusedtimes() == 0
  return select(2, self.client:connected(address.user, address.password, address.database, is_fresh))
end

---Ends an operation whose client has closed its connection; what Redis has done until then stays done.
function Transport:drop_if_left()
  if not (self.has_left and self.has_left()) then
    return false
  end
  self.client:give_up(LEFT, "the client closed its connection before the answer")
  return true
end

---Does it sleep without its connections?
function Transport:leaves()
  return self.client:sleeps() and not self.client:keeps()
end

---Until the operation has ended or leaves the connection, or with kind and message: why that must be closed.
function Transport:exchange(sock, run)
  local client = self.client
  while self:under_way() and not self:leaves() do
    if self:drop_if_left() then
      return LEFT
    end
    local asleep_ms, kind, message = client:sleeps(), nil, nil
    if not asleep_ms then
      kind, message = self:step(sock, client:output(), run)
    elseif self:patience(run) < 1 then
      self:give_up(run)
    else
      self:rest(run, asleep_ms)
    end
    if kind then
      return kind, message
    end
  end
end

---The client counts the bytes as sent before they are: Redis may have read them even if the sending ends with an error.
function Transport:step(sock, output, run)
  local client = self.client
  if output ~= "" then
    client:sent(#output)
    local sent, err = sock:send(output)
    if not sent then
      return self:broken(err)
    end
  end
  sock:settimeouts(socket.CONNECT_MS, socket.SILENCE_MS, math.max(math.min(socket.SILENCE_MS, self:patience(run)), 1))
  local data, err = sock:receiveany(READ_BYTES)
  if not data then
    if err == "timeout" and self:patience(run) < 1 then
      self:give_up(run) -- the limit says nothing of this connection, so what is known from before is the reason
    end
    return self:broken(err)
  end
  client:tell_left(run.ends - native.now_ms())
  client:tell_spent(native.now_ms() - run.first)
  local taken, kind, message = client:input(data)
  local answers = client:answers() -- a Redis that is loading or refuses writes answers the greeting
  if answers ~= run.answers then
    run.answers, run.began, run.failures, run.kind, run.message = answers, native.now_ms(), 0, nil, nil
    socket.served(sock)
  end
  if not taken then
    return kind, message
  end
end

function Transport:broken(err)
  local redacted = self.address.redacted
  if err == "timeout" then
    return "TIMEOUT", ("no answer from %s in time"):format(redacted)
  end
  return "IO", ("%s: %s"):format(redacted, err)
end

-- ---- a pop that waits

---The addresses of a cluster's masters, as far as they are known; nil: the URL is that of one Redis.
function Transport:nodes()
  if not self.address.is_cluster then
    return nil
  end
  local nodes, place = {}, 1
  local number, host, port = self.client:master(place)
  while number do
    nodes[place] = socket.at(self.address, host, port)
    place = place + 1
    number, host, port = self.client:master(place)
  end
  return nodes
end

---So that a client that leaves gives its place to others at once.
function Transport:wake_when_left(waiter)
  if self.has_left then
    self.has_left(function() waiter:wake() end)
  end
end

---Waits until a message comes or the time is over, then asks again. Once Redis has confirmed the channels it
---asks at once, because an id may have become due before. A queue that was made meanwhile has new channels.
function Transport:rest(run, asleep_ms)
  local names, was_heard = self.client:channels(), self.is_heard
  if not self.waiter or #self.waiter.wanted ~= #names then
    self.waiter, was_heard = wakes.waiter(self.address, names, self:nodes()), false
    self:wake_when_left(self.waiter)
  end
  local is_heard = self.waiter:is_heard()
  if was_heard or not is_heard then
    self.waiter:wait((is_heard and asleep_ms or math.min(asleep_ms, UNHEARD_MS)) / 1000)
    is_heard = self.waiter:is_heard()
  end
  if self:drop_if_left() then
    return
  end
  self.is_heard = is_heard
  self.client:listens(is_heard)
  self.client:tell_spent(native.now_ms() - run.first)
  local repeats = self.client:repeats()
  self.client:wake()
  if not repeats then
    run.began = native.now_ms()
  end
end

-- ---- the other methods that the pool calls

---@param settings_of_queue seriatim.QueueSettings
---@return integer  the queue's number in this transport; raises a seriatim.Error
function Transport:queue(settings_of_queue)
  return errors.must(errors.guard(self.client.queue, self.client, settings_of_queue))
end

---Ends the operation that was begun, whose light thread nginx has ended.
---@return any ...  what call would have returned
function Transport:break_off()
  self.client:give_up("IO", "the nginx worker ends")
  return errors.outcome(errors.guard(self.client.result, self.client))
end

---@return string  without its password
function Transport:url()
  return self.address.redacted
end

---Drops what was begun; its socket is closed already.
function Transport:reset()
  if self:under_way() then
    self.client:give_up("CLOSED", "closed while it was under way")
  end
end

function Transport:close()
  self.client:close()
end

return transport
