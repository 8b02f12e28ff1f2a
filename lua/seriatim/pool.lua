-- The connections of a Lua state, made when they are needed. In plain Lua one is enough; where light threads share the state,
-- each use has its own, at most client_pool_size of them at once.

local Connection = require "seriatim.connection"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local redis_url = require "seriatim.redis_url"
local settings = require "seriatim.settings"

local pool = {}

---@type seriatim.TransportMaker
local transport = require "seriatim.transport"

---@class seriatim.Pool
local Pool = {}
Pool.__index = Pool

---@type seriatim.Pool?
local current

local function configured()
  local version = settings.connection_changes
  local url, err = redis_url.resolve()
  if not url then
    return nil, err
  end
  local size = settings.client_pool_size
  return setmetatable({
    url = url,
    namespace = settings.namespace,
    size = size,
    timeout = settings.pool_timeout,
    version = version,
    pid = native.getpid(),
    idle = {},
    semaphore = transport.semaphore and transport.semaphore(size),
  }, Pool)
end

---Is it of these settings and of this process?
function Pool:fits()
  return self.version == settings.connection_changes and self.pid == native.getpid()
end

---A connection for one use.
---@return seriatim.Connection?
---@return seriatim.Error? err
function Pool:take()
  if self.semaphore and not self.semaphore:wait(self.timeout) then
    local text = "no free connection in %.14g s: all %d are in use (client_pool_size)"
    return nil, errors.new("POOL_TIMEOUT", text:format(self.timeout, self.size))
  end
  local connection = table.remove(self.idle)
  if connection then
    return connection
  end
  local opened, made, err = pcall(Connection.open, self.url, self.namespace, transport)
  if opened and made then
    return made
  end
  self:leave()
  if not opened then
    error(made, 0)
  end
  return nil, err
end

---Takes the connection back after its use.
function Pool:give_back(connection)
  if self.discarded then
    connection:close()
  else
    table.insert(self.idle, connection)
  end
  self:leave()
end

function Pool:leave()
  if self.semaphore then
    self.semaphore:post()
  end
end

---Closes what is idle now, and the rest when it comes back. A parent's sockets are left alone.
function Pool:discard()
  self.discarded = true
  while self.pid == native.getpid() and #self.idle > 0 do
    table.remove(self.idle):close()
  end
end

---The pool of these settings and of this process.
---@return seriatim.Pool?
---@return seriatim.Error? err
function pool.current()
  if current and current:fits() then
    return current
  end
  local made, err = configured()
  if not made then
    return nil, err
  end
  if current then
    current:discard()
  end
  current = made
  return made
end

---Reaches Redis in another way from now on.
---@param other seriatim.TransportMaker
function pool.use(other)
  transport = other
  if current then
    current:discard()
    current = nil
  end
end

local function ended(lender, connection, ok, ...)
  if not ok then
    connection:reset()
  end
  lender:give_back(connection)
  if ok then
    return ...
  end
  local raised = ...
  if errors.is(raised) then
    return nil, raised
  end
  error(raised, 0)
end

---What the question says of a connection, which may raise weather. What was begun when it raised is dropped.
---@param question fun(connection: seriatim.Connection): ...
---@return any ...  or nil and a seriatim.Error
function pool.ask(question)
  local lender, err = pool.current()
  if not lender then
    return nil, err
  end
  local connection
  connection, err = lender:take()
  if not connection then
    return nil, err
  end
  return ended(lender, connection, pcall(question, connection))
end

return pool
