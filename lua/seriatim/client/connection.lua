-- A connection to Redis for pushes and queries, with the numbers that it gave to its queues. The pool gives it to one user at a
-- time.

local plain = require "seriatim.client.transport"

---@class seriatim.Connection
local Connection = {}
Connection.__index = Connection

---@param url string
---@param namespace string
---@param transport seriatim.TransportMaker?  nil: plain Lua's
---@param url_from string?  the setting or variable that holds the URL, for the error of a Redis that cannot be reached
---@return seriatim.Connection?
---@return seriatim.Error? err
function Connection.open(url, namespace, transport, url_from)
  local opened, err = (transport or plain).open(url, namespace, url_from)
  if not opened then
    return nil, err
  end
  return setmetatable({ transport = opened, queues = {} }, Connection)
end

---An operation of seriatim.Operations to its end. The last argument is the limit in seconds, maybe nil.
---@param name string
---@return any ...  its result, or nil and a seriatim.Error
function Connection:call(name, ...)
  return self.transport:call(name, ...)
end

---The queue's number here; its settings travel again only when they changed. Raises a seriatim.Error, which the pool returns.
---@param settings seriatim.QueueSettings
---@return integer
function Connection:number(settings)
  local name = settings.queue_name
  local known = self.queues[name]
  if not known or known.settings ~= settings then
    known = { settings = settings, number = self.transport:queue(settings) }
    self.queues[name] = known
  end
  return known.number
end

---The number of the queue of this name, with the settings that this connection or Redis knows. Raises as number does.
---@param name string
---@return integer
function Connection:number_of(name)
  local known = self.queues[name]
  return known and known.number or self:number { queue_name = name, shards_count = 0 }
end

---@return string  the URL without its password
function Connection:url()
  return self.transport:url()
end

---The next action on a whole queue, or the next check, says on stderr how far it is. Only plain Lua's transport does.
---@param what string  the words in front of the figures
---@param total integer?  how many ids or records there are
---@return boolean  is it a terminal?
function Connection:progress(what, total)
  return self.transport:progress(what, total)
end

---Drops what was begun, with its socket.
function Connection:reset()
  self.transport:reset()
end

function Connection:close()
  self.transport:close()
end

return Connection
