-- What an operation does on a Redis Cluster: it has a connection to each master that it needs, as the core says, and sends to all of
-- them before it waits for one.

local socket = require "resty.seriatim.socket"
local native = require "seriatim.native"

local REACH_MS = 1000 -- for a connection, or bytes, to a master: one that takes longer may have been replaced, and others know
local LOOK_MS = 500 -- the most that one master is waited for while others owe an answer, too
local GLANCE_MS = 10 -- the same for a master that was silent at the last look
local READ_BYTES = 65536

local masters = {}

---The connections of one operation.
---@class seriatim.Exchange
local Exchange = {}
Exchange.__index = Exchange

-- ---- one connection

---Closes it, if it is open. at_once: it may be made again without a pause, unless it fails again and again.
function Exchange:lose(way, kind, message, at_once)
  local run = self.run
  if way.sock then
    way.sock:close()
    way.sock = nil
  end
  self.has_lost = true
  if socket.FINAL[kind] then
    self.client:give_up(kind, message)
    return
  end
  self.client:disconnected(way.number)
  run.kind, run.message = kind, message
  if way.failures == 0 and not at_once then
    way.failures = 1
  end
  way.retry_at = native.now_ms() + (way.failures > 0 and socket.pause_ms(way.failures) or 0)
  way.failures = way.failures + 1
end

function Exchange:connect(way)
  local address, options = self.transport.address, { pool = self.pool.pool, pool_size = self.pool.pool_size }
  local patience = math.max(1, math.min(REACH_MS, self.transport:patience(self.run)))
  local sock, kind, message = socket.connect(address, patience, options, way.at, patience)
  if not sock then
    return self:lose(way, kind, message)
  end
  way.sock, way.heard, way.quiet = sock, native.now_ms(), false
  local is_fresh = sock:getreusedtimes() == 0
  local _
  _, kind, message = self.client:connected(address.user, address.password, 0, is_fresh, way.number)
  if kind then
    return self:lose(way, kind, message)
  end
  self.transport:note_connected()
end

---The client counts the bytes as sent before they are: Redis may have read them even if the sending ends with an error.
function Exchange:send(way)
  local output = self.client:output(way.number)
  if output == "" then
    return
  end
  self.client:sent(#output, way.number)
  way.sock:settimeouts(REACH_MS, REACH_MS, REACH_MS)
  local sent, err = way.sock:send(output)
  if not sent then
    local kind, message = self.transport:broken(err)
    self:lose(way, kind, message, true)
  end
end

---Connects to it if it is wanted, and closes its connection if it is not.
function Exchange:approach(way, wanted, waits)
  if way.sock and not wanted then
    way.sock:close()
    way.sock = nil
    self.client:disconnected(way.number)
    self.has_lost = true
  elseif wanted and not way.sock and native.now_ms() >= way.retry_at then
    self:connect(way)
  elseif not waits then
    way.heard = native.now_ms()
  end
  if way.sock then
    self:send(way)
  end
end

---Makes the connections that are wanted, closes those that are not, and sends what is to be sent.
function Exchange:follow()
  local client, place = self.client, 1
  local number, host, port, wanted, waits = client:master(place)
  while number and self.transport:under_way() do
    local way = self.ways[number]
    if not way then
      way = { number = number, at = socket.at(self.transport.address, host, port), failures = 0, retry_at = 0, looked = 0 }
      self.ways[number] = way
    end
    self:approach(way, wanted, waits)
    place = place + 1
    number, host, port, wanted, waits = client:master(place)
  end
end

-- ---- answers

---Which master to wait for: the one of those that owe an answer at which it was looked the longest ago; and for how many
---milliseconds, at most. Nil: none owes one; and for how long to sleep.
function Exchange:choose(patience)
  local chosen, count, place, pause, now = nil, 0, 1, patience, native.now_ms()
  local number, _, _, wanted, waits = self.client:master(place)
  while number do
    local way = self.ways[number]
    if way and way.sock and waits then
      count = count + 1
      chosen = chosen and chosen.looked <= way.looked and chosen or way
    elseif wanted then
      count = count + 1
      pause = math.min(pause, way and way.retry_at - now or 0)
    end
    place = place + 1
    number, _, _, wanted, waits = self.client:master(place)
  end
  if chosen and count > 1 then
    patience = math.min(patience, chosen.quiet and GLANCE_MS or LOOK_MS)
  end
  return chosen, math.max(1, chosen and patience or pause)
end

function Exchange:take(way, data)
  local run, client, now = self.run, self.client, native.now_ms()
  way.heard, way.quiet = now, false
  client:tell_left(run.ends - now)
  client:tell_spent(now - run.first)
  local taken, kind, message = client:input(data, way.number)
  local answers = client:answers()
  if answers ~= run.answers then
    run.answers, run.began, run.kind, run.message = answers, native.now_ms(), nil, nil
    way.failures = 0
  end
  if not taken then
    self:lose(way, kind, message, kind == "PROTOCOL")
  end
end

function Exchange:hear(way, patience)
  self.looks = self.looks + 1
  way.looked = self.looks
  way.sock:settimeouts(REACH_MS, REACH_MS, patience)
  local data, err = way.sock:receiveany(READ_BYTES)
  if data then
    return self:take(way, data)
  end
  way.quiet = true
  if err ~= "timeout" or native.now_ms() - way.heard >= socket.SILENCE_MS then
    local kind, message = self.transport:broken(err)
    self:lose(way, kind, message, true)
  end
end

-- ---- the exchange

function Exchange:round()
  local due = self.client:tick() or math.huge
  self.has_lost = false
  self:follow()
  if self.has_lost or not self.transport:under_way() then
    return
  end
  local way, patience = self:choose(math.min(due, self.transport:patience(self.run)))
  if way then
    self:hear(way, patience)
  else
    ngx.sleep(patience / 1000)
  end
end

---Gives connections that owe nothing to nginx's pools.
function Exchange:finish()
  for number, way in pairs(self.ways) do
    if way.sock and self.client:left(number) then
      way.sock:setkeepalive(socket.IDLE_MS)
    elseif way.sock then
      way.sock:close()
      self.client:disconnected(number)
    end
  end
end

---Goes on with the transport's operation until it has ended or leaves its connections.
---@param transport seriatim.CosocketTransport
---@param run table  of the transport
---@param pool table  options of nginx's pool of idle connections; each master has one of its own
function masters.exchange(transport, run, pool)
  local client = transport.client
  local self = setmetatable({ transport = transport, client = client, run = run, pool = pool, ways = {}, looks = 0 }, Exchange)
  run.answers = client:answers()
  while transport:under_way() and not transport:leaves() and not transport:drop_if_left() do
    local asleep_ms = client:sleeps()
    if transport:patience(run) < 1 then
      transport:give_up(run)
    elseif asleep_ms then
      transport:rest(run, asleep_ms)
    else
      self:round()
    end
  end
  self:finish()
end

return masters
