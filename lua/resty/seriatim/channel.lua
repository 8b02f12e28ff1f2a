-- One of a node's connections, by a cosocket: a light thread that connects and reads, and one that writes. There is one for commands,
-- in a cluster to each master, and one for wake-ups.

local semaphore = require "ngx.semaphore"
local socket = require "resty.seriatim.socket"
local log = require "seriatim.log"
local native = require "seriatim.native"

local NEVER_MS = 86400000 -- the reading ends by the supervisor's watch, not by a timeout
local READ_BYTES = 262144

---@class seriatim.Channel
local Channel = {}
Channel.__index = Channel

local channels = { COMMANDS = 1, WAKES = 2 }

---notify: called when the node should be asked what is due now.
---@param node seriatim.Node
---@param number integer  COMMANDS, WAKES, or what node:master says
---@param url table
---@param notify fun()
---@param at table?  of socket.at: the master's address, in a cluster, where it connects when it is wanted
---@return seriatim.Channel
function channels.new(node, number, url, notify, at)
  local self = { node = node, number = number, url = url, notify = notify, at = at, wake = semaphore.new(), attempts = 0 }
  self.is_wanted, self.want = not url.is_cluster, semaphore.new()
  return setmetatable(self, Channel)
end

function Channel:spawn()
  self.threads = {
    ngx.thread.spawn(self.read_always, self),
    ngx.thread.spawn(self.write_always, self),
  }
end

---By the light thread that spawned.
function Channel:kill()
  for _, thread in ipairs(self.threads or {}) do
    ngx.thread.kill(thread)
  end
  local sock = self.sock
  self.threads, self.sock, self.sending, self.broken, self.poked = nil, nil, nil, nil, nil
  if sock then
    sock:close()
    self.node:disconnected(self.number)
  end
end

-- ---- in a cluster

---Is the connection to be there? The watch closes it if not.
function Channel:set_wanted(is_wanted)
  if is_wanted and not self.is_wanted then
    self.want:post()
  end
  self.is_wanted = is_wanted
end

---By the light thread that spawned: connects to another master from now on; nil: to none.
function Channel:turn_to(at)
  self:set_wanted(at ~= nil) -- before the spawn: the reader connects at once while it is wanted
  if at ~= self.at and self.threads then
    self:kill()
    self.at, self.attempts = at, 0
    self:spawn()
  end
end

-- ---- the watch

---Why the connection is useless though the reader still waits, and the kind of this error; nil: it is not.
function Channel:trouble()
  if self.broken or not self.sock or self.number == channels.WAKES then
    return self.broken, "IO"
  end
  local now = native.now_ms()
  if not self.node:waits(self.number) then
    self.heard = now
  elseif now - self.heard >= socket.SILENCE_MS then
    return ("no answer for %d seconds"):format(socket.SILENCE_MS / 1000), "TIMEOUT"
  end
end

---Counts a failure. Of those in a row it logs the first one of each kind, as the runner of the core does.
function Channel:failed(why, kind)
  if self.attempts == 0 then
    self.told = {}
  end
  self.attempts = self.attempts + 1
  if self.number ~= channels.WAKES and not self.told[kind] then
    self.told[kind] = true
    log.warn("warning", "Redis: " .. tostring(why))
  end
end

---By the light thread that spawned: looks after the connection.
function Channel:watch()
  local why, kind = self:trouble()
  local is_left = self.sock and not self.is_wanted
  if why and not is_left then
    self:failed(why, kind)
  end
  if why or is_left then
    self:kill()
    self:spawn()
    self.notify()
  end
end

-- ---- reading

function Channel:read_always()
  while true do
    while not self.is_wanted do
      self.want:wait(60)
    end
    local sock, kind, why = socket.connect(self.url, socket.CONNECT_MS, nil, self.at)
    if sock then
      why, kind = self:use(sock)
      socket.lost(self.url)
    else
      self.node:disconnected(self.number)
      self.notify()
    end
    self:failed(why, kind)
    ngx.sleep(socket.pause_ms(self.attempts) / 1000)
  end
end

---From the greeting to the end of the connection: why it ended, and the kind of this error.
function Channel:use(sock)
  local url = self.url
  sock:settimeouts(socket.CONNECT_MS, socket.SILENCE_MS, NEVER_MS)
  local greeted, kind, why = self.node:connected(self.number, url.user, url.password, url.database)
  if greeted then
    self.sock, self.heard = sock, native.now_ms()
    self.notify()
    why, kind = self:read(sock)
    self.sock = nil
  end
  while self.sending == sock do -- nginx closes no socket that another light thread writes to
    ngx.sleep(0.01)
  end
  sock:close()
  self.node:disconnected(self.number)
  self.notify()
  return why, kind
end

function Channel:read(sock)
  while true do
    local data, err = sock:receiveany(READ_BYTES)
    if not data then
      return err, "IO"
    end
    self.heard = native.now_ms()
    local taken, kind, message = self.node:input(self.number, data)
    if not taken then
      return message, kind
    end
    if self.node:served(self.number) then
      self.attempts = 0
      socket.served(sock)
    end
    self.notify()
  end
end

-- ---- writing

---Wakes the light thread that writes: the node may have bytes to send.
function Channel:flush()
  if self.sock and not self.poked then
    self.poked = true
    self.wake:post()
  end
end

function Channel:write_always()
  while true do
    self.poked = false
    local sock = self.sock
    if sock then
      self:write(sock)
    end
    if not self.poked then
      self.wake:wait(60)
    end
  end
end

function Channel:write(sock)
  local output = self.node:output(self.number)
  while output ~= "" and self.sock == sock do
    self.node:sent(self.number, #output)
    self.sending = sock
    local sent, err = sock:send(output)
    self.sending = nil
    if not sent then
      self.broken = self.sock == sock and err or nil
      return
    end
    output = self.node:output(self.number)
  end
end

return channels
