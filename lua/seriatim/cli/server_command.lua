-- Loads the application and runs the server until TERM or INT.
local codes = require "seriatim.cli.exit_codes"
local failure = require "seriatim.cli.failure"
local options = require "seriatim.cli.options"
local private_redis = require "seriatim.client.private_redis"
local redis_url = require "seriatim.client.redis_url"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local servers = require "seriatim.server"
local application = require "seriatim.server.application"
local workers = require "seriatim.server.workers"
local settings = require "seriatim.settings"

-- PIPE: that nobody reads the log must not end what runs.
local SIGNALS = { "TERM", "INT", "TSTP", "TTIN", "PIPE", "HUP", "USR1" }
local PATIENCE = 5 -- seconds that a crashing server gives to what runs

---@class seriatim.ServerCommand
local ServerCommand = {}
ServerCommand.__index = ServerCommand

local command = {}

---arguments: all of the command line, for the processes of -p.
---@return seriatim.ServerCommand
function command.new(given, arguments)
  return setmetatable({ options = given, arguments = arguments, early = {} }, ServerCommand)
end

---The exit code.
---@return integer
function ServerCommand:run()
  local path = self.options.require
  if not path then
    errors.usage("-r is missing: name the application's file or folder")
  end
  io.stdout:setvbuf("line") -- what jobs print is seen at once, also where standard output is a file or a pipe
  native.catch_signals(SIGNALS, "first") -- nothing can be handed back yet: TERM and INT end with 0, the others wait
  application.load(path)
  self:apply()
  workers.chosen(nil, self.options.queues)
  if redis_url.is_none() then
    private_redis.url()
  end
  if self:processes() > 1 then
    return require("seriatim.server.supervisor").new(self:processes(), settings.stop_timeout, self:child()):run()
  end
  return self:serve()
end

function ServerCommand:apply()
  if self.options.threads then
    settings.threads_per_node = self.options.threads
  end
  if self.options.timeout then
    settings.stop_timeout = self.options.timeout
  end
end

-- ---- processes

---One below a supervisor.
function ServerCommand:processes()
  local count = validate.integer("-p", self.options.processes or 1, 1, 1000)
  return self.options.parent and 1 or count
end

---The words that start one of several processes: those that started this one.
function ServerCommand:child()
  local first, words = 0, {}
  while arg[first - 1] do
    first = first - 1
  end
  for place = first, 0 do
    words[#words + 1] = arg[place]
  end
  words[#words + 1] = options.PARENT
  words[#words + 1] = "%parent%"
  for _, word in ipairs(self.arguments) do
    words[#words + 1] = word
  end
  return words
end

-- ---- one process

function ServerCommand:serve()
  local ran, result = xpcall(function()
    return self:serve_until_told()
  end, failure.seen)
  return ran and result or self:failed(result)
end

---Below a supervisor a second TERM does not mean haste: systemd, say, sends TERM to all of them, and the supervisor hands its
---own on. It is the supervisor that kills them at its second one.
function ServerCommand:serve_until_told()
  self.server = servers.new {
    application = self.options.require,
    queues = self.options.queues,
    environment = self.options.environment,
  }
  self.server:start(function()
    native.catch_signals(SIGNALS, not self.options.parent)
    self:hear_early()
  end)
  self:watch()
  return self:stop()
end

---Before the first claim: what came until now is kept for watch.
function ServerCommand:hear_early()
  local name = native.signal(0)
  while name do
    table.insert(self.early, name)
    if name == "TSTP" then
      self.server.runner:quiet()
    end
    name = native.signal(0)
  end
end

---Until the server is to stop.
function ServerCommand:watch()
  local server, patience = self.server, math.min(self.server:interval() / 2, 0.1)
  while true do
    local name = table.remove(self.early, 1) or native.signal(patience, self.options.parent)
    if name == "TERM" or name == "INT" or name == "PARENT" then
      return
    elseif name == "TSTP" then
      server:quiet()
    elseif name == "TTIN" then
      self:dump()
    elseif name == "HUP" or name == "USR1" then
      log.info("signal", name .. " is ignored")
    end
    server:tick()
    if server.failure ~= nil then
      error(server.failure, 0)
    elseif server.stop_requested then
      return
    end
  end
end

---Signals are heard while it stops: TTIN shows what it waits for, a second TERM or INT ends it at once. Threads that still
---run user code would hold the exit up, so the process ends without them then.
function ServerCommand:stop()
  local clean = self.server:stop(settings.stop_timeout, function(seconds)
    if native.signal(seconds) == "TTIN" then
      self:dump()
    end
  end)
  io.stdout:flush()
  if not clean then
    native.exit(codes.STOPPED)
  end
  return codes.STOPPED
end

---Where every thread is, innermost call first.
function ServerCommand:dump()
  log.info("thread", "main: " .. debug.traceback("", 2):gsub("^%s*stack traceback:%s*", ""):gsub("%s*\n%s*", " | "))
  for _, row in ipairs(self.server:tracebacks()) do
    local text = tostring(row[2]):gsub("^%s*stack traceback:%s*", ""):gsub("%s*\n%s*", " | ")
    log.info("thread", row[1] .. ": " .. text)
  end
end

-- ---- crashes

local function last_words(raised)
  for _, hook in ipairs(settings.last_words.functions) do
    local told, err = pcall(hook, raised)
    if not told then
      log.error("hook", "last_words raised " .. log.describe(err))
    end
  end
end

---The server may have begun to serve: what it holds is handed back before the process ends.
function ServerCommand:failed(ended)
  local raised, misuse = ended.raised, failure.misuse(ended.raised)
  if not misuse then
    last_words(raised)
  end
  log.write(log.FATAL, "exit", misuse or log.describe(raised))
  local code, text = codes.CRASHED, ended.traceback
  if misuse then
    code, text = misuse == private_redis.REFUSED and codes.NO_REDIS or codes.USAGE, "seriatim: " .. misuse
  elseif failure.no_redis(raised) then
    code, text = codes.NO_REDIS, "seriatim: " .. failure.no_redis(raised)
  end
  io.stderr:write(log.printable_lines(text), "\n")
  if self.server and self.server.runner and not pcall(self.server.stop, self.server, math.min(settings.stop_timeout, PATIENCE)) then
    log.error("crash", "the server could not be stopped")
  end
  io.stdout:flush()
  native.exit(code)
end

return command
