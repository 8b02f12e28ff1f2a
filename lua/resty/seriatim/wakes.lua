-- The messages that wake pops which wait: one connection of an nginx worker to a Redis, subscribed to the wake-up channels that its
-- pops want. In a cluster it leads to any node, because each gives on the messages of all. Each pop that waits would else need a
-- connection of its own. A timer owns the connection, because nginx closes the sockets of a request at its end; the timer ends if no
-- pop waits for some time, and after a turn, because nginx frees a timer's memory only then.

local semaphore = require "ngx.semaphore"
local socket = require "resty.seriatim.socket"
local timers = require "resty.seriatim.timers"
local log = require "seriatim.log"
local native = require "seriatim.native"

local READ_BYTES = 65536
local NEVER_MS = 86400000 -- the reading ends by the watch, not by a timeout, which nginx would log
local LOOK = 0.2 -- seconds between looks at the end of nginx, of the turn, and of the need for a connection
local IDLE_MS = 30000 -- without a pop that waits
local TURN_MS = 300000
local PAUSE_MS = 5000 -- after a refusal or a lost connection; of a cluster only after all nodes were tried

local wakes = {}

-- ---- what Redis says

local parse

local function parse_list(bytes, count, behind)
  local parts = {}
  for place = 1, count do
    parts[place], behind = parse(bytes, behind)
    if not behind then
      return nil
    end
  end
  return parts, behind
end

---The answer at this place of the bytes: a list, a text, or {refused = text}.
---@return table|string|nil answer
---@return integer? behind  the place behind it; nil: a part of it is missing
function parse(bytes, at)
  local kind, head, behind = bytes:match("^([*$:+-])([^\r\n]*)\r\n()", at)
  if not kind then
    return nil
  elseif kind == "*" then
    return parse_list(bytes, tonumber(head), behind)
  elseif kind == "$" then
    local last = behind + tonumber(head) - 1
    return bytes:sub(behind, last), #bytes >= last + 2 and last + 3 or nil
  end
  return kind == "-" and { refused = head } or head, behind
end

local function request(words)
  local parts = { ("*%d\r\n"):format(#words) }
  for place, word in ipairs(words) do
    parts[place + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
  end
  return table.concat(parts)
end

-- ---- a pop that waits

---@class seriatim.Waiter
---@field wanted string[]  names of channels
local Waiter = {}
Waiter.__index = Waiter

---Does the connection listen to all its channels?
function Waiter:is_heard()
  for _, name in ipairs(self.wanted) do
    local channel = self.hub.channels[name]
    if not (channel and channel.is_confirmed) then
      return false
    end
  end
  return #self.wanted > 0
end

---Until a message has come since the last wait, or what is_heard says may have changed, for at most `seconds`.
function Waiter:wait(seconds)
  self.hub:need(self)
  self.semaphore:wait(seconds)
  self.woken = false
end

function Waiter:wake()
  if not self.woken then
    self.woken = true
    self.semaphore:post()
  end
end

-- ---- the connection

---@class seriatim.Hub
local Hub = {}
Hub.__index = Hub

local hubs = {}

local function new_hub(address)
  local hub = { address = address, channels = {}, begins_at = 0, needed_at = 0, failures = 0, work = semaphore.new() }
  hub.timer = timers.new(function() hub:turn() end)
  return setmetatable(hub, Hub)
end

---@param address table  of socket.parse
---@param names string[]  of channels
---@param nodes table[]?  addresses of socket.at, where the URL is that of a cluster
---@return seriatim.Waiter
function wakes.waiter(address, names, nodes)
  local hub = hubs[address.text] or new_hub(address)
  hubs[address.text] = hub
  hub.nodes = nodes
  local waiter = setmetatable({ hub = hub, wanted = names, semaphore = semaphore.new(), woken = false }, Waiter)
  hub:need(waiter)
  return waiter
end

---Adds a waiter to its channels. Those of killed requests vanish, because the lists are weak.
function Hub:need(waiter)
  self.needed_at = native.now_ms()
  for _, name in ipairs(waiter.wanted) do
    local channel = self.channels[name]
    if not channel then
      channel = { waiters = setmetatable({}, { __mode = "k" }) }
      self.channels[name] = channel
      self.work:post()
    end
    channel.waiters[waiter] = true
  end
  if not self.is_running and self.needed_at >= self.begins_at and not ngx.worker.exiting() then
    self.timer:arm(0)
  end
end

function Hub:turn()
  self.is_running = true
  local ran, why = pcall(self.run, self)
  local channels = self.channels
  self.channels, self.is_running = {}, false
  for _, channel in pairs(channels) do
    for waiter in pairs(channel.waiters) do
      waiter:wake()
    end
  end
  if why then
    self.failures = self.failures + 1
    local others = self.failures % #(self.nodes or { true }) > 0
    self.begins_at = native.now_ms() + (others and 0 or PAUSE_MS)
    log[ran and "debug" or "error"]("wakes", log.describe(why))
  end
end

---The node of a cluster to connect to, another one after each failure; nil: the URL is that of one Redis.
function Hub:node()
  return self.nodes and self.nodes[self.failures % #self.nodes + 1]
end

---Nil: it is over; else why the connection ended.
function Hub:run()
  local sock, _, why = socket.connect(self.address, socket.CONNECT_MS, nil, self:node())
  if not sock then
    return why
  end
  sock:settimeouts(socket.CONNECT_MS, socket.SILENCE_MS, NEVER_MS)
  self.ended, self.heard, self.ping = nil, native.now_ms(), nil
  local threads = { ngx.thread.spawn(self.read_always, self, sock), ngx.thread.spawn(self.write_always, self, sock) }
  self:watch()
  for _, thread in ipairs(threads) do
    ngx.thread.kill(thread)
  end
  sock:close()
  if self.ended then
    socket.lost(self.address)
  end
  return self.ended
end

function Hub:watch()
  local until_ms = native.now_ms() + TURN_MS
  repeat
    ngx.sleep(LOOK)
    local now = native.now_ms()
    local is_over = ngx.worker.exiting() or now >= until_ms or now - self.needed_at >= IDLE_MS
    self:ask_for_life(now)
  until is_over or self.ended
end

---A frozen Redis keeps its connections: one that says nothing for some time is asked, and given up if it does not answer.
function Hub:ask_for_life(now)
  local silent = now - self.heard
  if silent >= socket.SILENCE_MS then
    self.ended = ("no answer for %d seconds"):format(socket.SILENCE_MS / 1000)
  elseif silent >= socket.SILENCE_MS / 2 and not self.ping then
    self.ping = "due"
    self.work:post()
  end
end

function Hub:read_always(sock)
  local kept, why = ""
  repeat
    local data, err = sock:receiveany(READ_BYTES)
    if data then
      self.heard, self.ping = native.now_ms(), nil
      kept, why = self:take(kept .. data)
    else
      why = err
    end
  until why
  self.ended = why
end

---What is left of the bytes; why the connection is of no use.
function Hub:take(bytes)
  local at = 1
  local answer, behind = parse(bytes, at)
  while behind do
    at = behind
    if type(answer) == "table" and answer.refused then
      return "", answer.refused
    end
    self:hear(answer)
    answer, behind = parse(bytes, at)
  end
  return bytes:sub(at)
end

---A message or a confirmation: what was asked before a confirmation may be old.
function Hub:hear(answer)
  local channel = type(answer) == "table" and self.channels[answer[2]]
  if not channel then
    return
  end
  channel.is_confirmed, self.failures = true, 0
  for waiter in pairs(channel.waiters) do
    if answer[1] == "message" or waiter:is_heard() then
      waiter:wake()
    end
  end
end

-- ---- writing

function Hub:greeting()
  local url = self.address
  if url.user then
    return request { "AUTH", url.user, url.password or "" } -- a user with nopass takes any password
  end
  return url.password and request { "AUTH", url.password } or ""
end

---PING, which Redis answers; "": none is due.
function Hub:question()
  if self.ping ~= "due" then
    return ""
  end
  self.ping = "sent"
  return request { "PING" }
end

---SUBSCRIBE to the channels that were added; "": to none.
function Hub:subscription()
  local words = { "SUBSCRIBE" }
  for name, channel in pairs(self.channels) do
    if not channel.is_asked then
      channel.is_asked = true
      words[#words + 1] = name
    end
  end
  return #words > 1 and request(words) or ""
end

function Hub:write_always(sock)
  local bytes = self:greeting() .. self:subscription()
  while bytes == "" or sock:send(bytes) do
    if bytes == "" then
      self.work:wait(60)
    end
    bytes = self:subscription() .. self:question()
  end
  self.ended = self.ended or "the connection broke while it was written to"
end

return wakes
