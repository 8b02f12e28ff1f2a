-- A redis-server of the tests' own, on a Unix socket in a folder of its own, stopped by its pid.

local native = require "seriatim.native"

local OPTIONS = "--port 0 --appendonly yes --appendfsync no --maxmemory-policy noeviction --save ''"

---@class spec.RedisServer
---@field url string
---@field folder string
local RedisServer = {}
RedisServer.__index = RedisServer

local function output_of(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("*a")
  pipe:close()
  return (text:gsub("\n$", ""))
end

local function quoted(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

local FREE_PORT = [[/usr/bin/python3 -c '
import random, socket
while True:
    try:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
            print(listening.getsockname()[1])
            break
    except OSError:
        pass
']]

---One that nobody listens at now, below those that the system gives to outgoing connections: none of these takes it before its
---server does.
---@return string
function RedisServer.free_port()
  return output_of(FREE_PORT)
end
---options: more words of redis-server's command line.
---@param options string?
---@return spec.RedisServer
function RedisServer.start(options)
  local folder = output_of("mktemp -d")
  local self = setmetatable({ folder = folder, socket = folder .. "/s", url = "unix://" .. folder .. "/s" }, RedisServer)
  self.options = OPTIONS .. " " .. (options or "")
  self:begin()
  return self
end

---Starts it, also again after stop.
function RedisServer:begin()
  local command = "redis-server %s --unixsocket %s --dir %s >%s/log 2>&1 & echo $!"
  self.pid = output_of(command:format(self.options, self.socket, self.folder, self.folder))
  local deadline = native.now_ms() + 60000
  while native.now_ms() < deadline do
    if self:call("PING") == "PONG" then
      return
    end
    native.sleep(0.02)
  end
  error("redis-server does not answer: " .. output_of("cat " .. self.folder .. "/log"))
end

---One command by redis-cli: its answer as text, one line an element.
function RedisServer:call(...)
  local words = {}
  for place, word in ipairs { ... } do
    words[place] = quoted(word)
  end
  return output_of(("redis-cli -s %s %s 2>&1"):format(self.socket, table.concat(words, " ")))
end

---Of all queues.
function RedisServer:flush()
  self:call("FLUSHALL")
end

---How many connections for pushes and queries it has.
function RedisServer:clients()
  local _, count = self:call("CLIENT", "LIST"):gsub("name=seriatim%-client", "")
  return count
end

function RedisServer:signal(name)
  os.execute(("kill -%s %s"):format(name, self.pid))
end

function RedisServer:stop()
  os.execute("kill " .. self.pid .. "; while kill -0 " .. self.pid .. " 2>/dev/null; do sleep 0.02; done")
end

function RedisServer:remove()
  self:stop()
  os.execute("rm -rf " .. quoted(self.folder))
end

return RedisServer
