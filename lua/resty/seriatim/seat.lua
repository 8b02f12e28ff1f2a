-- A light thread's place: it takes deliveries of its group and runs them one after another. The place outlives the thread:
-- where a timer's job lasts longer than the timer's turn, the next turn's thread waits for it.

local semaphore = require "ngx.semaphore"
local log = require "seriatim.log"
local native = require "seriatim.native"
local execution = require "seriatim.server.execution"
local host = require "seriatim.server.host"
local settings = require "seriatim.settings"

local TURN = 0.002 -- seconds of one round of nginx's event loop after which requests go first
local RELUCTANT = 0.01 -- seconds until a scheduler that chose nothing is asked again

local seats = {}

-- ---- a group's threads that found nothing

---@class seriatim.Door
local Door = {}
Door.__index = Door

function seats.door()
  return setmetatable({ waiting = 0, posted = 0, semaphore = semaphore.new() }, Door)
end

---Wakes one; it wakes the next when it finds something.
function Door:wake_one()
  if self.waiting > self.posted then
    self.posted = self.posted + 1
    self.semaphore:post()
  end
end

function Door:wake_all()
  local count = self.waiting - self.posted
  if count > 0 then
    self.posted = self.posted + count
    self.semaphore:post(count)
  end
end

function Door:wait(seconds)
  self.waiting = self.waiting + 1
  local woken = self.semaphore:wait(seconds)
  self.waiting = self.waiting - 1
  if woken then
    self.posted = self.posted - 1
  end
end

-- ---- the seat

---@class seriatim.Seat
local Seat = {}
Seat.__index = Seat

---@param made table  of nodes.make
---@param group integer
---@param door seriatim.Door
---@param loop table  its poke() asks the node what it wants now; its jobs count
---@return seriatim.Seat
function seats.new(made, group, door, loop)
  local source = host.source(made.node, group, made.scheduler, made.workers, made.shards_count)
  local self = { made = made, group = group, door = door, loop = loop, source = source, busy = false }
  self.free = semaphore.new()
  return setmetatable(self, Seat)
end

---Requests go first when this round of the event loop has lasted long.
local function breathe()
  if native.time() - ngx.now() > TURN then
    ngx.sleep(0.001) -- nginx without OpenResty's patches warns of sleep(0)
  end
end

---The next delivery; nil: none now; false: there will be no more. The seconds that a wait may last.
function Seat:take()
  local node, source, worker, shard = self.made.node, self.source, nil, nil
  if source.scheduler then
    worker, shard = source:pick()
  end
  if worker == nil then
    local spent = self.spent
    self.spent = nil
    return node:take(self.group, nil, spent), settings.poll_interval
  end
  return worker and node:take_from(self.group, worker, shard) or nil, RELUCTANT
end

function Seat:run(delivery)
  self.busy, self.delivery = true, delivery
  self.door:wake_one()
  self.loop.poke()
  self.spent = execution.run(self.made.workers, delivery)
  self.busy, self.delivery = false, nil
  self.free:post()
  self.loop.jobs = self.loop.jobs + 1
  self.loop.poke()
end

---Until the turn is over, or there will be no more.
function Seat:work(turn)
  while self.busy do
    self.free:wait(1)
  end
  while not turn.over do
    breathe()
    local delivery, patience = self:take()
    if delivery then
      self:run(delivery)
    elseif delivery == false then
      self.door:wake_all()
      return
    else
      self.door:wait(patience)
    end
  end
end

---Its light thread was aborted: nginx does so for an error in a coroutine that a job wraps, past every pcall.
function Seat:bereave()
  local delivery = self.delivery
  self.busy, self.delivery = false, nil
  if delivery then
    execution.aborted(self.made.workers, delivery)
  end
  self.free:post()
  self.loop.poke()
end

---After what raised outside of every job, as in a host thread.
function Seat:recover(raised)
  debug.sethook()
  self.busy, self.delivery = false, nil
  log.error("crash", log.describe(raised))
  collectgarbage() -- settles a delivery that nobody holds any more
  ngx.sleep(0.1)
end

---The light thread. Never raises.
function Seat:occupy(turn)
  local worked, err = pcall(self.work, self, turn)
  while not worked do
    pcall(self.recover, self, err)
    worked, err = pcall(self.work, self, turn)
  end
end

return seats
