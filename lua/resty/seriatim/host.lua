-- What a host thread of nginx does: it takes deliveries of its group and runs them one after another. A host outlives the light
-- thread that runs it, and has one at a time: where a job lasts longer than its timer's turn, a later turn serves the host when
-- the job has ended.

local semaphore = require "ngx.semaphore"
local log = require "seriatim.log"
local native = require "seriatim.native"
local execution = require "seriatim.server.execution"
local sources = require "seriatim.server.host"
local settings = require "seriatim.settings"

local LONG_ROUND = 0.002 -- seconds of one round of nginx's event loop after which requests go first
local ASK_AGAIN = 0.01 -- seconds after which a scheduler that chose nothing is asked again

local hosts = {}

-- ---- the hosts of a group that wait for a delivery

---@class seriatim.WaitQueue
local WaitQueue = {}
WaitQueue.__index = WaitQueue

function hosts.wait_queue()
  return setmetatable({ waiting = 0, woken_count = 0, semaphore = semaphore.new() }, WaitQueue)
end

---Wakes one host, which wakes the next one when it finds a delivery.
function WaitQueue:wake_one()
  if self.waiting > self.woken_count then
    self.woken_count = self.woken_count + 1
    self.semaphore:post()
  end
end

function WaitQueue:wake_all()
  local count = self.waiting - self.woken_count
  if count > 0 then
    self.woken_count = self.woken_count + count
    self.semaphore:post(count)
  end
end

---Waits until woken, at most this long.
---@param seconds number
function WaitQueue:wait(seconds)
  self.waiting = self.waiting + 1
  local woken = self.semaphore:wait(seconds)
  self.waiting = self.waiting - 1
  if woken then
    self.woken_count = self.woken_count - 1
  end
end

-- ---- the host

---@class seriatim.Host
---@field busy boolean  it runs a delivery
---@field is_served boolean  it has a light thread
---@field turn seriatim.Turn?  the one that has given it the last light thread
---@field thread thread?  that one
local Host = {}
Host.__index = Host

---@param made table  of nodes.make
---@param group integer
---@param wait_queue seriatim.WaitQueue
---@param loop table  loop.notify() makes it ask the node what is due now; loop.jobs counts the deliveries that were run
---@return seriatim.Host
function hosts.new(made, group, wait_queue, loop)
  local source = sources.source(made.node, group, made.scheduler, made.workers, made.shards_count)
  local self = { made = made, group = group, wait_queue = wait_queue, loop = loop, source = source }
  self.busy, self.is_served = false, false
  self.waits = { notify = loop.notify, sleep = ngx.sleep }
  return setmetatable(self, Host)
end

---Requests go first when this round of the event loop has lasted long.
local function let_requests_run()
  if native.time() - ngx.now() > LONG_ROUND then
    ngx.sleep(0.001) -- nginx without OpenResty's patches warns of sleep(0)
  end
end

---@return seriatim.Delivery|false|nil  nil: none now; false: there will be no more
---@return number?  seconds after which to ask again, if there is no delivery
function Host:take()
  local node, source, worker, shard = self.made.node, self.source, nil, nil
  if source.scheduler then
    worker, shard = source:pick()
  end
  if worker == nil then
    local reusable = self.reusable
    self.reusable = nil
    return node:take(self.group, nil, reusable), settings.poll_interval
  elseif worker == false then
    return node:take_unscheduled(self.group, 0), ASK_AGAIN
  end
  return node:take_from(self.group, worker, shard) or nil, ASK_AGAIN
end

function Host:run(delivery)
  self.busy, self.delivery, self.waits.checkpointed = true, delivery, nil
  self.wait_queue:wake_one()
  self.loop.notify()
  self.reusable = execution.run(self.made.workers, delivery, self.waits)
  self.busy, self.delivery = false, nil
  self.loop.jobs = self.loop.jobs + 1
  self.loop.notify()
end

---Until the turn is over, or there will be no more.
function Host:work(turn)
  while not turn.over do
    let_requests_run()
    local delivery, patience = self:take()
    if delivery then
      self:run(delivery)
    elseif delivery == false then
      self.wait_queue:wake_all()
      return
    else
      self.wait_queue:wait(patience)
    end
  end
end

---nginx has ended its light thread, past every pcall: for an error in a coroutine that a job wraps, or with its timer.
function Host:thread_aborted()
  local delivery = self.delivery
  self.is_served, self.busy, self.delivery = false, false, nil
  if delivery then
    execution.aborted(self.made.workers, delivery, self.waits)
  end
  self.loop.notify()
end

---After what raised outside of every job, as in a host thread.
function Host:recover(raised)
  debug.sethook()
  self.busy, self.delivery = false, nil
  log.error("crash", log.describe(raised))
  collectgarbage() -- settles a delivery that nobody holds any more
  ngx.sleep(0.1)
end

---The light thread. Never raises.
function Host:run_until_over(turn)
  local worked, err = pcall(self.work, self, turn)
  while not worked do
    pcall(self.recover, self, err)
    worked, err = pcall(self.work, self, turn)
  end
end

return hosts
