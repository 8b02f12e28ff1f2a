-- The dashboard without another server: strict HTTP/1.1 for a few browsers. One thread serves many connections, each in a coroutine
-- that yields the word of what it waits for; only the dashboard's own answers hold it up.

local log = require "seriatim.log"
local native = require "seriatim.native"
local dashboard = require "seriatim.web.dashboard"

local MOST_CONNECTIONS = 64 -- of a thread, beside those of pops that wait
local MOST_HEAD = 16384 -- bytes of request line and header fields
local REQUEST_SECONDS = 10 -- for a request to be there
local RESPONSE_SECONDS = 30 -- for a response to be taken
local IDLE_SECONDS = 60 -- between two requests
local REST_SECONDS = 120 -- more than a consumer's pop waits before it asks again
local HAND_OVER_SECONDS = 10 -- for room in the channel to the threads of changes, or to those of consumers
local HAND_OVER_PAUSE = 0.01 -- seconds, before it is asked again
local CONSUME = "POST /api/v1/consume/" -- what the requests of consumers begin with
local CONSUME_SECONDS = 1 -- for as many bytes of a request to be there
local LINGER_SECONDS = 2 -- for reading what a refused client still sends
local LOOK = 1 -- seconds between looks at what is overdue

local REASONS = {
  [200] = "OK", [204] = "No Content", [308] = "Permanent Redirect", [400] = "Bad Request", [401] = "Unauthorized", [403] = "Forbidden",
  [404] = "Not Found", [405] = "Method Not Allowed", [409] = "Conflict", [413] = "Content Too Large", [415] = "Unsupported Media Type",
  [417] = "Expectation Failed", [431] = "Request Header Fields Too Large", [500] = "Internal Server Error", [501] = "Not Implemented",
  [503] = "Service Unavailable", [505] = "HTTP Version Not Supported",
}
-- One of two would be taken for the other by whoever stands between.
local ONLY_ONCE = { host = true, ["content-length"] = true, ["transfer-encoding"] = true, authorization = true, origin = true }

local stand_alone = {}

-- ---- what was asked

---In linear time: no pattern has two ways to read the same spaces.
local function field_of(line)
  local name, value = line:match("^([%w!#$%%&'*+%-.^_`|~]+):([^%z\1-\8\10-\31\127]*)$")
  local from = value and value:find("[^ \t]")
  if name then
    return name:lower(), from and value:match("^.*[^ \t]", from) or ""
  end
end

---The header fields by lower-case names; nil: they are malformed.
local function fields_of(lines)
  local fields = {}
  for line in lines:gmatch("(.-)\r\n") do
    local name, value = field_of(line)
    if not name or fields[name] and ONLY_ONCE[name] then
      return nil
    end
    fields[name] = fields[name] and fields[name] .. ", " .. value or value
  end
  return fields
end

---What the head of a request says; or nil, status and why it is refused.
---@param head string  with the empty line at its end
---@return table?  method, path, query, headers, length, is_last
---@return integer? status
---@return string? why
function stand_alone.parse(head)
  local line, rest = head:match("^([^\r\n]*)\r\n(.*)\r\n$")
  local method, target, version = (line or ""):match("^(%u+) ([!-~]+) HTTP/(%d%.%d)$")
  if not method or target:sub(1, 1) ~= "/" then
    return nil, 400, "the request line is malformed"
  elseif version ~= "1.1" and version ~= "1.0" then
    return nil, 505, "only HTTP/1.1 is spoken here"
  end
  local fields = fields_of(rest)
  local length = fields and (fields["content-length"] or "0")
  if not fields or version == "1.1" and not fields.host or not length:find("^%d+$") then
    return nil, 400, "the header fields are malformed"
  elseif fields["transfer-encoding"] then
    return nil, 501, "Content-Length is needed"
  elseif #length > 9 or tonumber(length) > dashboard.MAX_BODY then
    return nil, 413, ("the body is longer than %d bytes"):format(dashboard.MAX_BODY)
  elseif fields.expect and fields.expect:lower() ~= "100-continue" then
    return nil, 417, "this cannot be expected"
  end
  local path, query = target:match("^([^?]*)%??(.*)$")
  local is_last = version == "1.0" or (fields.connection or ""):lower():find("close", 1, true) ~= nil
  return { method = method, path = path, query = query, headers = fields, length = tonumber(length), is_last = is_last }
end

-- ---- one connection

local Connection = {}
Connection.__index = Connection

function Connection:give(seconds)
  self.deadline = native.now_ms() + seconds * 1000
end

---More of what comes; false: no more.
function Connection:receive()
  local data = self.socket:receive()
  while data == nil do
    coroutine.yield("read")
    data = self.socket:receive()
  end
  self.input = self.input .. (data or "")
  return data ~= false
end

function Connection:send(text)
  local from = 1
  while from <= #text do
    local sent = self.socket:send(text, from)
    if not sent then
      return false
    elseif sent == 0 then
      coroutine.yield("write")
    end
    from = from + sent
  end
  return true
end

---Of a consumer's pop that waits: other requests are served for that many seconds.
function Connection:sleep(seconds)
  self.wakes_at = native.now_ms() + seconds * 1000
  self:give(REST_SECONDS)
  coroutine.yield("sleep")
  self.wakes_at = nil
end

---The next request's head; nil: there is none, or it is refused.
function Connection:read_head()
  local stop
  repeat
    stop = select(2, self.input:find("\r\n\r\n", 1, true))
    if not stop and #self.input > MOST_HEAD then
      return nil, 431, "the header fields are too long"
    end
  until stop or not self:receive()
  if stop then
    local head = self.input:sub(1, stop)
    self.input = self.input:sub(stop + 1)
    return stand_alone.parse(head)
  end
end

---Collected in pieces: a long body is copied once.
function Connection:read_body(request)
  if request.headers.expect and #self.input < request.length and not self:send("HTTP/1.1 100 Continue\r\n\r\n") then
    return false
  end
  local pieces, length = { self.input }, #self.input
  while length < request.length do
    self.input = ""
    if not self:receive() then
      return false
    end
    pieces[#pieces + 1] = self.input
    length = length + #self.input
  end
  local all = table.concat(pieces)
  request.body, self.input = all:sub(1, request.length), all:sub(request.length + 1)
  return true
end

function Connection:respond(response, is_head, is_last)
  local lines = {
    ("HTTP/1.1 %d %s"):format(response.status, REASONS[response.status] or "Answer"),
    "Date: " .. os.date("!%a, %d %b %Y %H:%M:%S GMT"),
    "Connection: " .. (is_last and "close" or "keep-alive"),
  }
  for name, value in pairs(response.headers) do
    lines[#lines + 1] = name .. ": " .. value
  end
  if not is_head and response.status ~= 204 then
    lines[#lines + 1] = "Content-Length: " .. #response.body
  end
  self:give(RESPONSE_SECONDS)
  return self:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. (is_head and "" or response.body))
end

---What still comes is read for a while: a connection that is closed before may lose the answer.
function Connection:refuse(status, why, more)
  if self:respond(dashboard.refusal(status, why, more), false, true) then
    self.socket:finish()
    self:give(LINGER_SECONDS)
    repeat
      self.input = ""
    until not self:receive()
  end
  return false
end

---The next request's first byte; false: it does not come.
function Connection:first_byte()
  local byte = self.socket:peek(1)
  while byte == nil do
    coroutine.yield("read")
    byte = self.socket:peek(1)
  end
  return byte
end

---Is the request that has begun one of a consumer? One that comes too slowly to tell is taken for a change.
function Connection:is_of_consumer()
  local by = native.now_ms() + CONSUME_SECONDS * 1000
  repeat
    local seen = self.socket:peek(#CONSUME)
    if seen == CONSUME or not seen or seen ~= CONSUME:sub(1, #seen) then
      return seen == CONSUME
    end
    self:sleep(HAND_OVER_PAUSE)
  until native.now_ms() >= by
  return false
end

---To the threads of changes or of consumers. The channel holds few connections (10 on Linux), fewer than clients begin a pop at the
---same moment: one that finds it full waits for its turn.
function Connection:hand_over(threads)
  local by = native.now_ms() + HAND_OVER_SECONDS * 1000
  while not self.socket:hand_over(threads) do
    if native.now_ms() >= by then
      if threads == self.consumers then
        return self:refuse(503, "the dashboard is busy")
      end
      return self:refuse(503, "the dashboard is busy; nothing was changed", { done = 0, unknown = false })
    end
    self:sleep(HAND_OVER_PAUSE)
  end
  return false
end

---Waits for the next request. A change is handed over to a thread of changes, so that it holds up no page and no probe; and what a
---consumer asks to a thread of consumers, so that no change, which may take long, holds it up.
---@return boolean  is it here to be read?
function Connection:begin()
  if self.input ~= "" then
    return true
  end
  self.idle = true
  local byte = self:first_byte()
  self.idle = false
  if byte == "P" and self.changes then -- POST, or what is refused for its method
    return self:hand_over(self.consumers and self:is_of_consumer() and self.consumers or self.changes)
  end
  return byte and self:receive()
end

---Was that the connection's last request? What is sent before its answer could be a change, which is not served here.
function Connection:is_over(request)
  return request.is_last or self.only_one or self.changes ~= nil and self.input:sub(1, 1) == "P"
end

---True: another request may follow.
function Connection:serve_one()
  self:give(self.input == "" and IDLE_SECONDS or REQUEST_SECONDS)
  if not self:begin() then
    return false
  end
  self:give(REQUEST_SECONDS)
  local request, status, why = self:read_head()
  if not request then
    return status and self:refuse(status, why)
  elseif not self:read_body(request) then
    return false
  end
  request.socket = self.socket:fd()
  request.sleep = function(seconds) self:sleep(seconds) end
  local response, is_last = self.app(request), self:is_over(request)
  return self:respond(response, request.method == "HEAD", is_last) and not is_last
end

function Connection:serve()
  while self:serve_one() do
    coroutine.yield("write") -- others have their turn
  end
end

-- ---- all of them

local Server = {}
Server.__index = Server

---app: called with each request. changes: the end of a channel, to which the connections go that ask for a change; nil: none do.
---consumers: that of another one, to which those of consumers go; nil: they go to the first.
---@param listener table  of native.listen
---@param app fun(request: seriatim.WebRequest): seriatim.WebResponse
---@param changes seriatim.Socket?
---@param consumers seriatim.Socket?
---@param polls integer?  how many pops of consumers may wait
---@param most integer?  how many other connections may be open
function stand_alone.new(listener, app, changes, consumers, polls, most)
  local all = (most or MOST_CONNECTIONS) + (polls or 0)
  return setmetatable({ listener = listener, app = app, changes = changes, consumers = consumers, most = all, connections = {} }, Server)
end

---Serves the connections that others hand over, a request of each.
---@param channel seriatim.Socket  the other end
---@param app fun(request: seriatim.WebRequest): seriatim.WebResponse
---@param polls integer?  how many pops of consumers may wait
function stand_alone.for_changes(channel, app, polls)
  return setmetatable({ listener = channel, app = app, only_one = true, most = MOST_CONNECTIONS + (polls or 0), connections = {} }, Server)
end

function Server:close(place)
  table.remove(self.connections, place).socket:close()
end

---One that waits for its next request before one that is served, else the one that has less time left.
local function gives_way_before(one, other)
  if one.idle ~= other.idle then
    return one.idle
  end
  return one.deadline < other.deadline
end

function Server:close_poorest()
  local poorest = 1
  for place, connection in ipairs(self.connections) do
    if gives_way_before(connection, self.connections[poorest]) then
      poorest = place
    end
  end
  self:close(poorest)
end

function Server:add(socket)
  if #self.connections >= self.most then
    self:close_poorest()
  end
  local fields = { socket = socket, app = self.app, only_one = self.only_one, waits_for = "read" }
  local connection = setmetatable(fields, Connection)
  connection.changes, connection.consumers = self.changes, self.consumers
  connection.input, connection.idle = "", false
  connection.thread = coroutine.create(connection.serve)
  connection:give(REQUEST_SECONDS)
  table.insert(self.connections, connection)
end

---Of those that were handed over one at a time, because a change may take long and another thread is free.
function Server:accept()
  local socket
  repeat
    if self.only_one then
      socket = self.listener:take()
    else
      socket = self.listener:accept()
    end
    if socket then
      self:add(socket)
    end
  until not socket or self.only_one
end

---Goes on with a connection until it waits again. A change may take long, and nothing of the others is read meanwhile: they get that
---time in addition.
---@return boolean waits  false: it has ended
function Server:go_on(connection)
  local began = native.now_ms()
  local ran, word = coroutine.resume(connection.thread, connection)
  local spent = native.now_ms() - began
  if not ran then
    log.error("web", log.describe(word))
  end
  connection.waits_for = word
  for _, other in ipairs(spent > 0 and self.connections or {}) do
    if other ~= connection then
      other.deadline = other.deadline + spent
    end
  end
  return ran and coroutine.status(connection.thread) ~= "dead"
end

function Server:close_overdue()
  local now = native.now_ms()
  for place = #self.connections, 1, -1 do
    if self.connections[place].deadline <= now then
      self:close(place)
    end
  end
end

---Those whose pop has slept for long enough ask again.
function Server:wake()
  local now = native.now_ms()
  for place = #self.connections, 1, -1 do
    local connection = self.connections[place]
    if connection.wakes_at and connection.wakes_at <= now and not self:go_on(connection) then
      self:close(place)
    end
  end
end

---The sockets and words that native.poll wants, the connections' places behind those of the listener, and for how long it may wait.
function Server:sources(seconds)
  local sockets, words, places, now = { self.listener }, { "read" }, { 0 }, native.now_ms()
  for place, connection in ipairs(self.connections) do
    if connection.wakes_at then
      seconds = math.max(0, math.min(seconds, (connection.wakes_at - now) / 1000))
    else
      sockets[#sockets + 1], words[#words + 1], places[#places + 1] = connection.socket, connection.waits_for, place
    end
  end
  return sockets, words, places, seconds
end

---Continues the requests that are ready; waits at most that many seconds for one.
function Server:step(longest)
  local sockets, words, places, seconds = self:sources(longest)
  local ready = native.poll(sockets, words, seconds)
  for at = #ready, 1, -1 do
    local place = places[ready[at]]
    if place == 0 then
      self:accept()
    elseif not self:go_on(self.connections[place]) then
      self:close(place)
    end
  end
  self:wake()
  self:close_overdue()
end

---For ever.
function Server:run()
  while true do
    self:step(LOOK)
  end
end

return stand_alone
