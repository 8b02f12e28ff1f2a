-- Cosockets to Redis: Unix socket, TCP, or TLS with verification.

local native = require "seriatim.native"

local tcp = ngx.socket.tcp

local CONNECT_MS = 5000
local SILENCE_MS = 15000 -- an open connection that owes an answer this long is dead
local LOCAL = { localhost = "127.0.0.1" } -- nginx asks a resolver for names, which knows no /etc/hosts

local socket = { SILENCE_MS = SILENCE_MS, CONNECT_MS = CONNECT_MS }

local function dial(sock, url, options)
  if url.scheme == "unix" then
    return sock:connect("unix:" .. url.path, options)
  end
  return sock:connect(LOCAL[url.host] or url.host, url.port, options)
end

---nginx may say true of a handshake that it refused; its socket is closed then, and knows no count.
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

local function failed(url, err)
  local kind = err == "timeout" and "TIMEOUT" or "IO"
  return nil, kind, ("cannot connect to %s: %s"):format(url.redacted, err)
end

---@param url table  of native.parse_url
---@param patience integer  ms
---@param pool table?  options of nginx's pool of idle connections; nil: a connection of its own
---@return table? socket  or nil, kind and message
function socket.connect(url, patience, pool)
  local sock = tcp()
  sock:settimeouts(patience, SILENCE_MS, SILENCE_MS)
  local connected, err = dial(sock, url, pool)
  if not connected then
    return failed(url, err)
  end
  local secured
  secured, err = secure(sock, url)
  if not secured then
    sock:close()
    return failed(url, "TLS: " .. err)
  end
  return sock
end

---Milliseconds until the next attempt after so many failures in a row: 50, 100, ... 1000, each shortened by up to a half.
---@param failures integer  from 1
function socket.pause_ms(failures)
  local pause = math.min(50 * 2 ^ (failures - 1), 1000)
  return pause - pause / 2 * math.random()
end

---@return table? url, string? kind, string? message
function socket.parse(url)
  return native.parse_url(url)
end

return socket
