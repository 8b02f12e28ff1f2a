-- Cosockets to Redis: Unix socket, TCP, or TLS with verification.

local semaphore = require "ngx.semaphore"
local sentinel = require "resty.seriatim.sentinel"
local native = require "seriatim.native"

local tcp = ngx.socket.tcp

local CONNECT_MS = 5000
local SILENCE_MS = 15000 -- an open connection that owes an answer this long is dead
local LOCAL = { localhost = "127.0.0.1" } -- nginx asks a resolver for names, which knows no /etc/hosts

local socket = {
  SILENCE_MS = SILENCE_MS,
  CONNECT_MS = CONNECT_MS,
  IDLE_MS = 60000, -- how long nginx keeps an unused connection
  FINAL = { AUTH = true, SERVER = true, INVALID = true, UNSUPPORTED = true, NOMEM = true }, -- ends of a connection that will come again
}

local named = setmetatable({}, { __mode = "k" }) -- by the socket: the address that sentinels have named

local function dial(sock, url, options)
  if url.scheme == "unix" then
    return sock:connect("unix:" .. url.path, options)
  end
  local host = LOCAL[url.host] or url.host
  return sock:connect(host:find(":", 1, true) and ("[%s]"):format(host) or host, url.port, options)
end

---sslhandshake may return true though the handshake was refused. The socket is closed then, and getreusedtimes returns nil.
local function secure(sock, url)
  if url.scheme ~= "rediss" or sock:getreusedtimes() > 0 then
    return true
  end
  local made, err = sock:sslhandshake(false, url.host, true)
  if made and not sock:getreusedtimes() then
    return nil, "the handshake failed"
  end
  return made, err
end

local function failed(url, at, err, is_late)
  local kind = (is_late or err == "timeout") and "TIMEOUT" or "IO"
  local reason = url.is_cluster and ("%s:%d: %s"):format(at.host, at.port, err) or err
  return nil, kind, native.connect_error(url.redacted, reason, url.from)
end

local function open(at, patience, options)
  local sock = tcp()
  sock:settimeouts(patience, patience, patience)
  local connected, err = dial(sock, at, options)
  if not connected then
    return nil, err
  end
  local secured
  secured, err = secure(sock, at)
  if not secured then
    sock:close()
    return nil, "TLS: " .. err
  end
  return sock
end

---Does nginx ask its resolver for this address? It does not where an idle connection to it is left.
local function is_resolved(at)
  local host = LOCAL[at.host] or at.host
  return at.scheme ~= "unix" and not (host:find(":", 1, true) or host:find("^[%d.]+$"))
end

---As open, and takes at most `limit` ms, by a light thread that is ended then: the resolver obeys no timeout of a socket.
---@return table? sock
---@return string? err
---@return boolean? is_late
local function open_in_time(at, patience, options, limit)
  if not is_resolved(at) then
    return open(at, patience, options)
  end
  local ended = semaphore.new()
  local thread = ngx.thread.spawn(function()
    local sock, err = open(at, patience, options)
    ended:post()
    return sock, err
  end)
  if ended:wait(limit / 1000) then
    return select(2, ngx.thread.wait(thread))
  end
  ngx.thread.kill(thread)
  return nil, ("no answer in %.3g s from %s, or from the resolver that looks it up"):format(limit / 1000, at.host), true
end

---Each master has idle connections of its own.
local function options_at(at, options)
  if options then
    options.pool = ("%s at %s:%d"):format(options.pool, at.host, at.port)
  end
  return options
end

---The address of a node of a cluster, for socket.connect.
function socket.at(url, host, port)
  return { scheme = url.tls and "rediss" or "redis", host = host, port = port, redacted = url.redacted }
end

---@param url table  of socket.parse
---@param patience integer  ms for the connection, once its name is resolved
---@param pool table?  options of nginx's pool of idle connections; nil: a connection of its own
---@param node table?  of socket.at, where the URL is that of a cluster
---@param limit number?  ms for all of it; nil: as long as nginx's resolver needs. The light thread that calls must not be killed
---meanwhile, because the one that connects would live on until then
---@return table? socket  or nil, kind and message
function socket.connect(url, patience, pool, node, limit)
  local at = node or url
  local opener = limit and open_in_time or open
  if node then
    pool = options_at(node, pool)
  elseif url.has_sentinels then
    local master, kind, message = sentinel.master(url, opener)
    if not master then
      return nil, kind, message
    end
    at, pool = master, options_at(master, pool)
  end
  local sock, err, is_late = opener(at, patience, pool, limit)
  if sock then
    named[sock] = url.has_sentinels and at or nil
    return sock
  end
  socket.lost(url)
  return failed(url, at, err, is_late)
end

---Redis has answered a request, and not only the greeting.
function socket.served(sock)
  if named[sock] then
    sentinel.served(named[sock])
  end
end

---A connection ended: that Redis may not be the master any more, so the sentinels are asked again.
function socket.lost(url)
  if url.has_sentinels then
    sentinel.forget(url)
  end
end

---Milliseconds until the next attempt after this number of failures in a row: 50, 100, ... 1000, each shortened by up to a half.
---@param failures integer  from 1
function socket.pause_ms(failures)
  local pause = math.min(50 * 2 ^ (failures - 1), 1000)
  return pause - pause / 2 * math.random()
end

---@return table? url, string? kind, string? message
function socket.parse(url)
  local parsed, kind, message = native.parse_url(url)
  if parsed then
    parsed.text, parsed.has_sentinels, parsed.is_cluster = url, parsed.scheme == "redis+sentinel", parsed.hosts ~= nil
  end
  return parsed, kind, message
end

return socket
