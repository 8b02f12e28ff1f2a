-- Requests to seriatim.web by tables, and bytes to a server by a socket.

local command = require "support.command"
local native = require "seriatim.native"

local browser = {}

local Answer = {}
Answer.__index = Answer

function Answer:json()
  return assert(native.load(self.body))
end

---A header field, by its name in any case.
function Answer:field(name)
  for given, value in pairs(self.headers) do
    if given:lower() == name:lower() then
      return value
    end
  end
end

---@param app seriatim.Web
---@param more table?  headers, secure
function browser.ask(app, method, path, body, more)
  local request = { method = method, body = body, headers = { Host = "example.org" } }
  request.path, request.query = path:match("^([^?]*)%??(.*)$")
  for name, value in pairs(more and more.headers or {}) do
    request.headers[name] = value or nil
  end
  request.secure = more and more.secure
  return setmetatable(app(request), Answer)
end

function browser.get(app, path, headers)
  return browser.ask(app, "GET", path, nil, { headers = headers })
end

---body: a text, or what is sent as JSON. headers: false takes one away.
function browser.post(app, path, body, headers)
  local all = { ["Content-Type"] = "application/json", ["Sec-Fetch-Site"] = "same-origin" }
  for name, value in pairs(headers or {}) do
    all[name] = value
  end
  local text = type(body) == "string" and body or body and native.dump(body, "body") or "{}"
  return browser.ask(app, "POST", path, text, { headers = all })
end

function browser.encoded(text)
  return (text:gsub("[^%w]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

---All routes but those of consumers, which are there only with `consume`.
---path: with this queue's name, and a fingerprint that no error has, where it needs them.
function browser.routes(queue)
  local routes = {}
  for _, route in ipairs(native.web_routes()) do
    routes[#routes + 1] = not route.pattern:find("/consume/", 1, true) and route or nil
  end
  for _, route in ipairs(routes) do
    route.path = route.pattern:gsub(":worker", queue):gsub(":queue", queue):gsub(":node", queue):gsub(":fingerprint", "0123456789abcdef")
    route.name = route.method .. " " .. route.pattern
  end
  return routes
end

local SEND = [[
import socket, sys
where, text = sys.argv[1], open(sys.argv[2], "rb").read()
unix = where.startswith("unix:")
s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
s.settimeout(20)
s.connect(where[5:] if unix else ("127.0.0.1", int(where)))
try:
    s.sendall(text)
    while data := s.recv(65536):
        sys.stdout.buffer.write(data)
except (ConnectionError, socket.timeout) as e:
    print(e)
]]

---What a server sends for these bytes until it closes the connection. where: a port, or unix:PATH.
function browser.exchange(where, bytes)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
  local words = { '"${PYTHON:-/usr/bin/python3}"', "-c", command.quote(SEND), command.quote(tostring(where)), path }
  local text = command.output_of(table.concat(words, " "))
  os.remove(path)
  return text
end

return browser
