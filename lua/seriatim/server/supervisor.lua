-- Runs several server processes: hands signals on to them and starts a crashed one again.
local log = require "seriatim.log"
local native = require "seriatim.native"

local QUICK = 5 -- seconds: a process that ends sooner is started again only after a pause
local LONGEST_PAUSE = 30
local GIVE_UP = { [2] = true, [3] = true } -- exit codes that a new start would only repeat: usage, no Redis
local SECOND_LOOK = 60 -- seconds: after so long those codes are a crash as any other

---@class seriatim.Supervisor
local Supervisor = {}
Supervisor.__index = Supervisor

local supervisor = {}

local function seconds_now()
  return native.now_ms() / 1000
end

---command: the words that start a process. stop_timeout: seconds that one takes to stop.
---@param count integer
---@param stop_timeout number
---@param command string[]
---@return seriatim.Supervisor
function supervisor.new(count, stop_timeout, command)
  local self = { count = count, stop_timeout = stop_timeout, command = command }
  self.children = {} -- pid: {place, started}
  self.alive = 0
  self.due = {} -- place: when to start it
  self.quick = {} -- place: how many quick ends in a row
  self.code = 0
  return setmetatable(self, Supervisor)
end

---The exit code, when all have ended.
---@return integer
function Supervisor:run()
  native.catch_signals({ "TERM", "INT", "TSTP", "TTIN", "CHLD", "PIPE", "HUP", "USR1" }, "mark")
  for place = 1, self.count do
    self:start(place)
  end
  while not self.stopping or self.alive > 0 do
    self:supervise()
  end
  return self.code
end

function Supervisor:supervise()
  self:act(native.signal((next(self.due) or self.stopping) and 0.2 or 60))
  self:reap()
  self:start_due()
  self:enforce_deadline()
end

---at_once: true of the second TERM or INT, as the core counts them.
function Supervisor:act(name, at_once)
  if at_once then
    self:kill_all()
  elseif name == "TERM" or name == "INT" then
    self:stop()
  elseif name == "HUP" or name == "USR1" then
    log.info("signal", name .. " is ignored")
  elseif name == "TSTP" or name == "TTIN" then
    self.quiet = self.quiet or name == "TSTP"
    self:forward(name)
  end
end

-- ---- processes

function Supervisor:start(place)
  local pid, kind, message = native.spawn(self.command)
  if not pid then
    error(("process %d of %d cannot be started: %s: %s"):format(place, self.count, kind, message), 0)
  end
  if self.quiet then
    native.kill(pid, "TSTP")
  end
  self.children[pid] = { place = place, started = seconds_now() }
  self.alive = self.alive + 1
  log.info("start", ("process %d of %d has pid %d"):format(place, self.count, pid))
end

function Supervisor:reap()
  local pid, how, number = native.reap()
  while pid do
    local child = self.children[pid]
    if child then
      self.children[pid] = nil
      self.alive = self.alive - 1
      self:ended(child, pid, how, number)
    end
    pid, how, number = native.reap()
  end
end

local SIGNALS = { [1] = "SIGHUP", [2] = "SIGINT", [3] = "SIGQUIT", [4] = "SIGILL", [6] = "SIGABRT", [7] = "SIGBUS",
  [8] = "SIGFPE", [9] = "SIGKILL", [11] = "SIGSEGV", [13] = "SIGPIPE", [14] = "SIGALRM", [15] = "SIGTERM" }
local TERM = 15

local function told(how, number)
  if how == "exit" then
    return ("exit %d"):format(number)
  end
  return SIGNALS[number] and ("%s (signal %d)"):format(SIGNALS[number], number) or ("signal %d"):format(number)
end

function Supervisor:ended(child, pid, how, number)
  if self.stopping then
    self:note_end(how, number)
    return
  end
  local lived = seconds_now() - child.started
  local text = ("process %d (pid %d) ended: %s"):format(child.place, pid, told(how, number))
  if how == "exit" and number == 0 then -- the dashboard asked for it
    log.info("stop", text)
  else
    log.error("crash", text)
  end
  if how == "exit" and GIVE_UP[number] and lived < SECOND_LOOK and not self:has_long_lived() then
    self.code = number
    self:stop()
    return
  end
  local quick = lived < QUICK and (self.quick[child.place] or 0) + 1 or 0
  self.quick[child.place] = quick
  self.due[child.place] = seconds_now() + math.min(quick ^ 2, LONGEST_PAUSE)
end

---While such a process serves, the others may get what it got: an error of Redis passes, say.
function Supervisor:has_long_lived()
  for _, child in pairs(self.children) do
    if seconds_now() - child.started >= SECOND_LOOK then
      return true
    end
  end
  return false
end

---One that TERM itself ended had not begun to serve.
function Supervisor:note_end(how, number)
  local well = how == "exit" and number == 0 or how == "signal" and number == TERM
  if self.code == 0 and not well then
    self.code = 1
  end
end

function Supervisor:start_due()
  for place = 1, self.count do
    if self.due[place] and seconds_now() >= self.due[place] then
      self.due[place] = nil
      local started, failure = pcall(self.start, self, place)
      if not started then -- no memory or no process left, perhaps only for now
        if self.alive == 0 then
          error(failure, 0)
        end
        log.error("crash", failure)
        self.due[place] = seconds_now() + LONGEST_PAUSE
      end
    end
  end
end

-- ---- the end

function Supervisor:stop()
  if self.stopping then
    return
  end
  self.stopping = true
  self.due = {}
  self.deadline = seconds_now() + self.stop_timeout + 5
  self:forward("TERM")
  self:forward("CONT") -- one that a signal stopped before it had handlers would not hear of it
end

function Supervisor:enforce_deadline()
  if not self.stopping or self.alive == 0 or seconds_now() <= self.deadline then
    return
  end
  log.error("stop", ("killing processes that did not stop in %g s: %s"):format(self.stop_timeout + 5, self:pids()))
  self:forward("KILL")
  self.deadline = seconds_now() + 5
end

function Supervisor:pids()
  local pids = {}
  for pid in pairs(self.children) do
    pids[#pids + 1] = pid
  end
  return table.concat(pids, ", ")
end

function Supervisor:forward(name)
  for pid in pairs(self.children) do
    native.kill(pid, name)
  end
end

function Supervisor:kill_all()
  log.error("stop", "a second signal ended the server at once; killed: " .. self:pids())
  self:forward("KILL")
  native.exit(1)
end

return supervisor
