-- Which Redis is the master now: asked of the sentinels over cosockets, and remembered until a connection to it fails.

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local LIMIT_MS = 500 -- what a slow or dead sentinel may cost
local READ_BYTES = 4096

local masters = {} -- by the URL: its address
local named_by = setmetatable({}, { __mode = "k" }) -- by the address: the native sentinel that has named it, until the master has served
local idle = {} -- by the URL: native sentinels that nobody uses; each knows which of them answered last

local sentinel = {}

local function address(url, host, port, tls)
  return { scheme = tls and "rediss" or "redis", host = host, port = port, redacted = url.redacted }
end

---The address of the master that this sentinel names; nil: it names none.
local function ask(asked, at, url, open)
  local sock, err = open(at, LIMIT_MS, nil, LIMIT_MS)
  if not sock then
    asked:failed(err)
    return nil
  end
  sock:settimeouts(LIMIT_MS, LIMIT_MS, LIMIT_MS)
  local data, host, port, tls
  data, err = sock:send(asked:output())
  while data do
    data, err = sock:receiveany(READ_BYTES)
    if data then
      host, port, tls = asked:input(data)
      if host ~= "again" then
        sock:close()
        return host and address(url, host, port, tls)
      end
    end
  end
  asked:failed(err)
  sock:close()
end

local function ask_all(asked, url, open)
  asked:begin()
  local host, port, tls = asked:next()
  while host do
    local master = ask(asked, address(url, host, port, tls), url, open)
    if master then
      return master
    end
    host, port, tls = asked:next()
  end
  return nil, port, tls -- kind and message here
end

---@param url table  of native.parse_url, with its text
---@param open fun(at: table, patience: integer, pool: nil, limit: integer): table?, string?  makes a connection
---@return table? address  or nil, kind and message
function sentinel.master(url, open)
  local text = url.text
  if masters[text] then
    return masters[text]
  end
  idle[text] = idle[text] or {}
  local asked = table.remove(idle[text]) or errors.must(native.sentinel(text))
  local master, kind, message = ask_all(asked, url, open)
  table.insert(idle[text], asked)
  masters[text] = master
  if master then
    named_by[master] = asked
  end
  return master, kind, message
end

---The master at this address has answered a request: the sentinel that named it is asked first the next time, too.
function sentinel.served(master)
  local asked = named_by[master]
  if asked then
    named_by[master] = nil
    asked:served()
  end
end

---Forgets the master, to which a connection failed: the sentinels are asked again.
function sentinel.forget(url)
  masters[url.text] = nil
end

return sentinel
