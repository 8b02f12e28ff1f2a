-- Cosockets to Redis: Unix socket, TCP, or TLS with verification.

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

local function failed(url, at, err)
  local kind = err == "timeout" and "TIMEOUT" or "IO"
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
---@param patience integer  ms
---@param pool table?  options of nginx's pool of idle connections; nil: a connection of its own
---@param node table?  of socket.at, where the URL is that of a cluster
---@return table? socket  or nil, kind and message
function socket.connect(url, patience, pool, node)
  local at = node or url
  if node then
    pool = options_at(node, pool)
  elseif url.has_sentinels then
    local master, kind, message = sentinel.master(url, open)
    if not master then
      return nil, kind, message
    end
    at, pool = master, options_at(master, pool)
  end
  local sock, err = open(at, patience, pool)
  if sock then
    return sock
  end
  socket.lost(url)
  return failed(url, at, err)
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
