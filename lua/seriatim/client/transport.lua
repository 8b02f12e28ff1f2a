-- How a connection reaches Redis in plain Lua: one socket, waited for by poll(2).

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local unpack = table.unpack or unpack

local MAX_PAYLOAD = 0 -- the core's default, 1 MiB

---What the pool takes for a transport.
---@class seriatim.TransportMaker
---@field open fun(url: string, namespace: string, url_from: string?): seriatim.Transport?, seriatim.Error?
local transport = {}

---@class seriatim.Transport
local Transport = {}
Transport.__index = Transport

---@param url string
---@param namespace string
---@param url_from string?  the setting or variable that holds the URL
---@return seriatim.Transport?
---@return seriatim.Error? err
function transport.open(url, namespace, url_from)
  local link, kind, message = errors.guard(native.link, url, namespace, "seriatim-client", MAX_PAYLOAD, url_from)
  if not link then
    return errors.failure(kind, message)
  end
  return setmetatable({ link = link }, Transport)
end

---Begins an operation of seriatim.Operations and waits for its end. The last argument is the limit in seconds; nil: as long as
---the core allows.
---@param name string
---@return any ...  its result, or nil and a seriatim.Error
function Transport:call(name, ...)
  local arguments, count = { ... }, select("#", ...)
  local link = self.link
  local begun, kind, message = errors.guard(link[name], link, unpack(arguments, 1, count - 1))
  if not begun then
    return errors.failure(kind, message)
  end
  return errors.outcome(errors.guard(link.drive, link, arguments[count]))
end

---@param settings seriatim.QueueSettings
---@return integer  the queue's number in this transport; raises a seriatim.Error
function Transport:queue(settings)
  return errors.must(errors.guard(self.link.queue, self.link, settings))
end

---@return string  without its password
function Transport:url()
  return self.link:url()
end

---The next action on a whole queue, or the next check, says on stderr how far it is.
---@param what string  the words in front of the figures
---@param total integer?  how many ids or records there are
---@return boolean  is it a terminal?
function Transport:progress(what, total)
  return self.link:progress(what, total)
end

---Drops what was begun, with its socket, so that no answer can be mistaken for another's.
function Transport:reset()
  self.link:reset()
end

function Transport:close()
  self.link:close()
end

return transport
