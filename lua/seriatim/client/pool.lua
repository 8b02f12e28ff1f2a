-- The connections of a Lua state, made when they are needed. In plain Lua one is enough; where light threads share the state,
-- each use has its own, and their transport sees to client_pool_size and pool_timeout.

local Connection = require "seriatim.client.connection"
local redis_url = require "seriatim.client.redis_url"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local pool = {}

---@type seriatim.TransportMaker
local transport = require "seriatim.client.transport"

---@class seriatim.Pool
local Pool = {}
Pool.__index = Pool

---@type seriatim.Pool?
local current

---A pool by the settings of this time. url_from: the setting or variable that holds the URL; nil: it was given to a call.
local function pool_of(url, url_from)
  local fields =
    { url = url, namespace = settings.namespace, version = settings.connection_changes, pid = native.getpid(), idle = {} }
  fields.url_from = url_from
  return setmetatable(fields, Pool)
end

local function configured()
  local resolved, url, err = pcall(redis_url.resolve)
  if not resolved then
    return errors.refuse(url)
  end
  if not url then
    return nil, err
  end
  return pool_of(url, redis_url.named_by())
end

---Is it of these settings and of this process?
function Pool:fits()
  return self.version == settings.connection_changes and self.pid == native.getpid()
end

---A connection for one use.
---@return seriatim.Connection?
---@return seriatim.Error? err
function Pool:take()
  local connection = table.remove(self.idle)
  if connection then
    return connection
  end
  return Connection.open(self.url, self.namespace, transport, self.url_from)
end

---Takes the connection back after its use. Those of a burst that waited for a place are not kept.
function Pool:give_back(connection)
  if self.discarded or #self.idle >= settings.client_pool_size then
    connection:close()
  else
    table.insert(self.idle, connection)
  end
end

---Closes what is idle now, and the rest when it comes back. A parent's sockets are left alone.
function Pool:discard()
  self.discarded = true
  while self.pid == native.getpid() and #self.idle > 0 do
    table.remove(self.idle):close()
  end
end

---Set by seriatim.testing: gives what stands in for the pool, or nothing where Redis is used.
---@type nil|fun(): any
pool.test_mode = nil

---The pool of these settings and of this process.
---@return seriatim.Pool?
---@return seriatim.Error? err
function pool.current()
  local stand_in = pool.test_mode and pool.test_mode()
  if stand_in then
    return stand_in
  end
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

---name: of what needs Redis. Raises misuse in a mode of seriatim.testing.
function pool.refuse_in_tests(name)
  local stand_in = pool.test_mode and pool.test_mode()
  if stand_in then
    stand_in:refuse(name)
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

---For another Redis than the module's: a function that gives its pool, as pool.current.
---@param url string
---@return fun(): seriatim.Pool
function pool.of(url)
  local own
  return function()
    if not (own and own:fits()) then
      own = pool_of(url)
    end
    return own
  end
end

---What the question says of a connection, which may raise a seriatim.Error. What was begun when it raised is dropped.
---@param question fun(connection: seriatim.Connection): ...
---@param lender_of (fun(): seriatim.Pool?, seriatim.Error?)?  nil: pool.current
---@return any ...  or nil and a seriatim.Error
function pool.ask(question, lender_of)
  local lender, err = (lender_of or pool.current)()
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
