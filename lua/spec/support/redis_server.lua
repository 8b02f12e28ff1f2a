-- Starts the redis-servers and sentinels of every Lua test: lua/spec and spec/conformance/runners/lua.

local native = require "seriatim.native"

local OPTIONS = "--port 0 --appendonly yes --appendfsync no --maxmemory-policy noeviction --save ''"

---A private redis-server on a Unix socket in a temporary folder. The process is stopped by its pid.
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

local FREE_PORT = [["${PYTHON:-/usr/bin/python3}" -c '
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

---A port that nobody listens at now. It lies below those that the system gives to outgoing connections, so that no connection
---takes it before its server does.
---@return string
function RedisServer.free_port()
  return output_of(FREE_PORT)
end

---The server of another process, by the folder of its socket.
---@param folder string
---@param url string?  nil: that of the socket
---@return spec.RedisServer
function RedisServer.at(folder, url)
  return setmetatable({ folder = folder, socket = folder .. "/s", url = url or "unix://" .. folder .. "/s" }, RedisServer)
end

---Returns when it answers.
---@param options string? further words of redis-server's command line, which override OPTIONS
---@return spec.RedisServer
function RedisServer.start(options)
  local self = RedisServer.at(output_of("mktemp -d"))
  self.options = OPTIONS .. " " .. (options or "")
  self:begin()
  return self
end

---Starts the process, again after `stop`, and waits until it answers.
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

---Sends one command by redis-cli. Returns its reply as text, each element of a list in a line.
function RedisServer:call(...)
  local words = {}
  for place, word in ipairs { ... } do
    words[place] = quoted(word)
  end
  return output_of(("redis-cli -s %s %s 2>&1"):format(self.socket, table.concat(words, " ")))
end

---Deletes all keys.
function RedisServer:flush()
  self:call("FLUSHALL")
end

---Returns the number of connections to it that push and query.
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

---Starts a sentinel on a port of loopback that watches a master. Its files lie in the folder of the master, which removes them.
---Returns its port, a function that sends it a command and returns the reply as text, and a function that ends it.
---@param master spec.RedisServer
---@param name string of the master
---@param master_port string
---@return string, fun(...: string): string, fun()
function RedisServer.start_sentinel(master, name, master_port)
  local port, folder = RedisServer.free_port(), master.folder
  local file = assert(io.open(folder .. "/sentinel.conf", "w"))
  file:write(([[
port %s
dir %s
sentinel monitor %s 127.0.0.1 %s 1
sentinel down-after-milliseconds %s 8000
sentinel failover-timeout %s 2000
]]):format(port, folder, name, master_port, name, name))
  file:close()
  local pid = output_of(("redis-server %s/sentinel.conf --sentinel > %s/sentinel.log 2>&1 & echo $!"):format(folder, folder))
  return port, function(...)
    return output_of(("redis-cli -p %s %s 2>&1"):format(port, table.concat({ ... }, " ")))
  end, function()
    os.execute("kill " .. pid)
  end
end

return RedisServer
