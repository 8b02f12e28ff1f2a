-- The command seriatim-lua in a process of its own, in a folder of its own.
local native = require "seriatim.native"
local redis_server = require "support.redis_server"
local seriatim = require "seriatim"
local suite = require "support.suite"

local NEUTRAL = {
  "RAILS_ENV", "RACK_ENV", "APP_ENV", "SERIATIM_ENV", "REDIS_URL", "SERIATIM_REDIS_URL", "REDIS_PROVIDER",
}

local command = {}

---How a test's application begins: it writes lines to the trace.
command.APP = [[
local seriatim = require "seriatim"
local native = require "seriatim.native"

local function note(text)
  local trace = assert(io.open(os.getenv("TRACE"), "a"))
  trace:write(text .. "\n")
  trace:close()
end
]]

local function absolute(path)
  return path:sub(1, 1) == "/" and path or os.getenv("PWD") .. "/" .. path
end

---The folder lua/ of the checkout.
command.root = absolute(debug.getinfo(1, "S").source:match("^@(.*)spec/support/command%.lua$"))
command.interpreter = suite.interpreter()

function command.quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

---What a shell command writes to its standard output.
function command.output_of(script)
  local pipe = assert(io.popen(script))
  local text = pipe:read("*a")
  pipe:close()
  return text
end

function command.read(path)
  local file = io.open(path, "rb")
  local text = file and file:read("*a") or ""
  if file then
    file:close()
  end
  return text
end

---Polls until the function gives something true, which it returns.
function command.eventually(check, seconds, what)
  local deadline = native.now_ms() + (seconds or 60) * 1000
  while true do
    local value = check()
    if value then
      return value
    end
    if native.now_ms() > deadline then
      error(("not within %g s: %s"):format(seconds or 60, type(what) == "function" and what() or what or ""), 2)
    end
    native.sleep(0.005)
  end
end

function command.is_alive(pid)
  local state = command.read(("/proc/%d/stat"):format(pid)):match("%) (%a)")
  return state ~= nil and state ~= "Z"
end

local function has_pending_signal(pid)
  local mask = command.read(("/proc/%d/status"):format(pid)):match("ShdPnd:%s*(%x+)")
  return mask ~= nil and mask:find("[^0]") ~= nil
end

-- ---- a folder for applications, traces and logs

local Shell = {}
Shell.__index = Shell

---redis: its URL, or nil for none.
function command.shell(redis)
  local folder = command.output_of("mktemp -d /tmp/seriatim-lua-spec.XXXXXX"):gsub("%s+$", "")
  return setmetatable({ folder = folder, redis = redis, started = {}, count = 0 }, Shell)
end

function Shell:write(name, text)
  local path = self.folder .. "/" .. name
  os.execute("mkdir -p " .. command.quote(path:match("^(.*)/")))
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

function Shell:trace()
  return command.read(self.folder .. "/trace")
end

---How often the text stands in the trace.
function Shell:count_of(text)
  local count, at = 0, 1
  local trace = self:trace()
  while true do
    local from, to = trace:find(text, at, true)
    if not from then
      return count
    end
    count, at = count + 1, to + 1
  end
end

local function words(arguments)
  local list = { command.interpreter, command.quote(command.root .. "bin/seriatim-lua") }
  for _, argument in ipairs(arguments) do
    list[#list + 1] = command.quote(argument)
  end
  return table.concat(list, " ")
end

local default_signals

---An option of env(1) by which the command does not ignore HUP where nohup started the tests; empty where env does not know it.
local function with_default_signals()
  if not default_signals then
    local known = os.execute("env --default-signal=HUP true 2> /dev/null")
    default_signals = (known == true or known == 0) and "--default-signal=HUP" or ""
  end
  return default_signals
end

---The shell's words that start the command here. arguments.env, arguments.redis (false: none) and arguments.closed (">&-") are options.
function Shell:line(arguments)
  local parts = { "cd " .. command.quote(self.folder) .. " && exec env " .. with_default_signals() }
  for _, name in ipairs(NEUTRAL) do
    parts[#parts + 1] = "-u " .. name
  end
  local redis = arguments.redis == nil and self.redis or arguments.redis
  parts[#parts + 1] = redis and "REDIS_URL=" .. command.quote(redis) or ""
  parts[#parts + 1] = ("LUA_PATH=%s LUA_CPATH=%s"):format(command.quote(command.lua_path()), command.quote(command.lua_cpath()))
  parts[#parts + 1] = "TRACE=" .. command.quote(self.folder .. "/trace")
  for name, value in pairs(arguments.env or {}) do
    parts[#parts + 1] = name .. "=" .. command.quote(value)
  end
  parts[#parts + 1] = words(arguments)
  parts[#parts + 1] = arguments.closed
  return table.concat(parts, " ")
end

function command.lua_path()
  return ("%s?.lua;%s?/init.lua;;"):format(command.root, command.root)
end

function command.lua_cpath()
  return ("%slib/%s/?.so;;"):format(command.root, command.interpreter:find("5.4", 1, true) and "5.4" or "5.1")
end

---Runs it to its end. Gives what it wrote to both outputs (without standard error where errors is false), and its exit code.
function Shell:run(...)
  local arguments = type(...) == "table" and (...) or { ... }
  self.count = self.count + 1
  local path = ("%s/run%d"):format(self.folder, self.count)
  local errors_to = arguments.errors == false and "/dev/null" or "&1"
  os.execute(("( %s ) > %s 2>%s < /dev/null; echo $? > %s.code"):format(self:line(arguments), path, errors_to, path))
  return command.read(path), tonumber(command.read(path .. ".code"))
end

---The same with stderr on a terminal, by script(1). Gives what it wrote to the terminal, to its standard output, and its exit code.
function Shell:run_on_terminal(...)
  self.count = self.count + 1
  local path = ("%s/run%d"):format(self.folder, self.count)
  local script = ("stty raw; %s > %s.out"):format(self:line { ... }, path)
  -- A FIFO that is open for writing, too, never ends: at the end of its input, script would write ^D to the terminal.
  os.execute(("mkfifo %s.in; SHELL=/bin/sh script -qec %s /dev/null > %s 2>&1 0<> %s.in; echo $? > %s.code"):format(
    path, command.quote(script), path, path, path))
  return command.read(path), command.read(path .. ".out"), tonumber(command.read(path .. ".code"))
end

---Every test has an empty Redis and a shell with its URL, with default settings here. busted: its functions, as the file that
---calls this sees them. app: the text of app.lua, if there is one. hand: is given both before each test.
function command.use(busted, app, hand)
  local redis, shell
  busted.setup(function() redis = redis_server.start() end)
  busted.before_each(function()
    redis:flush()
    seriatim.reset_settings()
    seriatim.redis = redis.url
    shell = command.shell(redis.url)
    if app then
      shell:write("app.lua", app)
    end
    hand(redis, shell)
  end)
  busted.after_each(function() shell:remove() end)
  busted.teardown(function() redis:remove() end)
end

-- ---- a running one

local Running = {}
Running.__index = Running

---Starts it, and waits until it says that it runs (unless arguments.wait is false).
function Shell:start(...)
  local arguments = type(...) == "table" and (...) or { ... }
  self.count = self.count + 1
  local path = ("%s/log%d"):format(self.folder, self.count)
  local script = ("( %s ) > %s 2>&1 < /dev/null & echo $! > %s.pid; wait $!; echo $? > %s.code"):format(
    self:line(arguments), path, path, path)
  os.execute(("sh -c %s > /dev/null 2>&1 &"):format(command.quote(script)))
  local running = setmetatable({ path = path }, Running)
  running.pid = command.eventually(function()
    return tonumber(command.read(path .. ".pid"))
  end)
  self.started[#self.started + 1] = running
  if arguments.wait ~= false then
    running:wait_for(" start node")
  end
  return running
end

function Shell:remove()
  for _, running in ipairs(self.started) do
    if command.is_alive(running.pid) then
      os.execute("kill -KILL " .. running.pid)
    end
    for _, pid in ipairs(running:pids()) do
      if command.is_alive(pid) then
        os.execute("kill -KILL " .. pid)
      end
    end
  end
  os.execute("rm -rf " .. command.quote(self.folder))
end

function Running:log()
  return command.read(self.path)
end

---Until the log matches the pattern.
function Running:wait_for(pattern, seconds)
  local deadline = native.now_ms() + (seconds or 60) * 1000
  while not self:log():find(pattern) do
    local ended = self:code() ~= nil
    if ended and not self:log():find(pattern) or native.now_ms() > deadline then
      error(("no %q in:\n%s"):format(pattern, self:log()), 2)
    end
    native.sleep(0.002)
  end
end

function Running:signal(name)
  os.execute(("kill -%s %d 2> /dev/null"):format(name, self.pid))
end

---Sends it and waits until its handler has it: two that wait would be one.
function Running:signal_taken(name)
  self:signal(name)
  command.eventually(function() return not has_pending_signal(self.pid) end)
end

---The exit code; nil: it runs.
function Running:code()
  return tonumber(command.read(self.path .. ".code"))
end

function Running:wait(seconds)
  return command.eventually(function()
    return self:code()
  end, seconds or 60, function()
    return "still runs:\n" .. self:log()
  end)
end

function Running:stop(name, seconds)
  self:signal(name or "TERM")
  return self:wait(seconds)
end

---Of the processes of -p, in the order of their starts.
function Running:pids()
  local found = {}
  for pid in self:log():gmatch("process %d+ of %d+ has pid (%d+)") do
    found[#found + 1] = tonumber(pid)
  end
  return found
end

return command
