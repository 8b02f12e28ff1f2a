-- The worker loop of one nginx worker: timers, one after another, whose light threads drive one node. A turn ends after some
-- jobs or some time, because nginx frees a timer's memory only at its end; the node lives on. A turn drives the node until
-- the next one has begun, because nginx may drop the timer of that one. A supervisor ends the loop when the nginx worker ends,
-- and kills what does not end in time; a guard begins anew what crashed.

local semaphore = require "ngx.semaphore"
local channels = require "resty.seriatim.channel"
local nodes = require "resty.seriatim.node"
local hosts = require "resty.seriatim.host"
local socket = require "resty.seriatim.socket"
local timers = require "resty.seriatim.timers"
local errors = require "seriatim.errors"
local events = require "seriatim.events"
local log = require "seriatim.log"
local native = require "seriatim.native"
local node_parts = require "seriatim.server.node"
local settings = require "seriatim.settings"

local TURN_MS = 60000
local WATCH = 0.1 -- seconds between the supervisor's looks
local GUARD = 1 -- seconds between the guard's looks
local STALLED = 2 -- looks of the guard after which the loop is said to be gone
local STRIKES = 5 -- looks of the guard without a look of the supervisor's, or of a retired turn's: it is gone
local BOOT_STRIKES = 60 -- while Redis is asked for the queues
local REPEATED_MS = 60000 -- in this time one line of the log says why the loop does not begin
local HANDED_BACK = 3 -- seconds for handing back what was abandoned; the node gives up after 2
local RETIRED_END = 1 -- seconds for earlier turns to end their jobs

---@class seriatim.Loop
---@field jobs integer  deliveries that this loop ran
---@field driver seriatim.Turn?  the turn that drives the node; nil: none does, since the last one has crashed or the loop ended
---@field successor seriatim.Turn?  the next one, which has begun and waits for the end of that one
---@field retired table<seriatim.Turn, integer>  those with jobs that still run: looks of the guard since their last one
---@field ended boolean
---@field crashed boolean  the node is gone by a crash, and there is no other one yet
---@field failure table?  the last one since a turn has begun: text, when it was logged (ms), kept (how many were not logged since)
---@field hooked table<string, integer>  how many functions of each hook have returned
local Loop = {}
Loop.__index = Loop

local loops = { TURN_JOBS = 10000 }

---@param options table  of nodes.options
---@return seriatim.Loop
function loops.new(options)
  local self = setmetatable({ options = options, jobs = 0, looks = 0, strikes = 0, ended = false, crashed = false }, Loop)
  self.timer, self.retired, self.hooked = timers.new(self.turn, self), {}, { on_server_init = 0, on_thread_init = 0 }
  self.ticks = semaphore.new()
  self.notify = function()
    if not self.notified then
      self.notified = true
      self.ticks:post()
    end
  end
  return self
end

-- ---- timers

function Loop:arm(seconds)
  local made, err = self.timer:arm(seconds)
  if not (made or self.is_refused or ngx.worker.exiting()) then
    log.error("crash", "nginx refuses a timer: " .. tostring(err))
  end
  self.is_refused = not made
end

local function on_guard(premature, self)
  if not premature and not self.ended then
    self:guard()
  end
end

---The guard's timer comes first: without it nothing would begin the loop anew, and with it a refusal of the other timer is made good.
function Loop:start()
  local made, err = ngx.timer.every(GUARD, on_guard, self)
  if not made then
    errors.misuse("start: nginx refuses a timer: " .. tostring(err))
  end
  loops.started = self
  self:arm(0)
end

---The supervisor looks ten times as often; if it is gone, something ended its timer: ngx.exit in a job, for one. Where no turn
---runs or waits, nginx may have dropped the timer of the next one.
function Loop:guard()
  local alive = self.looks ~= self.seen
  self.seen = self.looks
  self.strikes = alive and 0 or self.strikes + 1
  if not self.driver then
    self:begin_turn(0)
  elseif self.strikes >= (self.made and STRIKES or BOOT_STRIKES) then
    self.strikes, self.crashed = 0, true
    log.error("crash", "the worker loop ended; it is started again")
    self:forget()
    self:begin_turn(0)
  end
  self:guard_retired()
end

---A retired turn looks ten times as often, too. If it is gone, its jobs are; the node, which lives on, would wait for them.
function Loop:guard_retired()
  local gone = {}
  for turn, strikes in pairs(self.retired) do
    self.retired[turn] = strikes + 1
    if strikes + 1 >= STRIKES then
      gone[#gone + 1] = turn
    end
  end
  for _, turn in ipairs(gone) do
    log.error("crash", "a timer of an earlier turn ended with its jobs, by ngx.exit in one of them perhaps; they fail")
    turn:abort_hosts()
    self.retired[turn] = nil
  end
end

---Lets another turn drive the node, unless one waits for that already.
function Loop:begin_turn(seconds)
  if not self.successor then
    self:arm(seconds)
  end
end

---Why this nginx worker runs no jobs now; nil: it does, has no loop, or asks Redis for the queues still.
---@return string?
function loops.stalled()
  local loop = loops.started
  local is_gone = loop and (loop.crashed or loop.made and loop.strikes >= STALLED)
  return is_gone and "the worker loop is gone" or nil
end

---Ends the sleep of the turn that drives the node.
function Loop:call_driver()
  if self.driver then
    self.driver:call()
  end
end

---The node claims nothing more; this nginx worker goes on serving requests.
function Loop:quiet()
  self.made.node:quiet()
  self.notify()
end

---After a crash the node ends as a killed process does: what ran is another node's when its lease is over.
function Loop:forget()
  self.driver, self.retired = nil, {}
  if self.made then
    events.served_by_none()
    self.made.node:close()
    self.made = nil
  end
end

-- ---- one turn

---@class seriatim.Turn
---@field over boolean  its threads take nothing more
---@field hosts seriatim.Host[]  of the node that it drives
local Turn = {}
Turn.__index = Turn

---Waits until no turn drives the node any more. False: the loop has ended, or ends by the turn that drives the node.
function Loop:take_over(turn)
  while self.driver and not ngx.worker.exiting() do
    self.successor = turn
    self.driver:call()
    turn.calls:wait(WATCH)
  end
  if self.successor == turn then
    self.successor = nil
  end
  if self.driver or self.ended then
    return false
  end
  self.driver = turn
  return true
end

---A loop that Redis refuses, or that cannot reach it, is begun again each second.
function Loop:log_failure(text)
  local last, now = self.failure, native.now_ms()
  local is_same = last and last.text == text
  if is_same and now - last.logged < REPEATED_MS then
    last.kept = last.kept + 1
    return
  end
  self.failure = { text = text, logged = now, kept = 0 }
  if is_same and last.kept > 0 then
    text = ("%s (%d more failures were not logged)"):format(text, last.kept)
  end
  log.warn("warning", text)
end

function Loop:forget_failure()
  local last = self.failure
  self.failure = nil
  if last and last.kept > 0 then
    log.warn("warning", ("the worker loop has begun; %d more failures before it were not logged"):format(last.kept))
  end
end

---In a timer.
function Loop:turn()
  local turn = setmetatable({ loop = self, over = false, hosts = {}, channels = {} }, Turn)
  turn.calls = semaphore.new()
  if not self:take_over(turn) then
    return
  end
  self.looks = self.looks + 1
  local ran, err = pcall(turn.run, turn)
  if ran then
    return
  end
  self.crashed = not errors.is(err) or errors.is(err, "USAGE") -- else Redis is away, or refuses
  if errors.is(err) then
    self:log_failure(tostring(err))
  else
    log.error("crash", log.describe(err))
  end
  turn:kill_all()
  self:forget()
  self:begin_turn(GUARD)
end

---A job must not end the nginx worker with its requests; nginx does not even start another after exit code 2.
function Loop:forbid_exit()
  if self.is_exit_forbidden then
    return
  end
  self.is_exit_forbidden = true
  local exit = os.exit
  rawset(os, "exit", function(...)
    if ngx.get_phase() == "timer" then
      error("os.exit() in a timer of nginx", 2)
    end
    return exit(...)
  end)
end

---Calls each function of the hook until it has returned once: a turn that follows a failure goes on with the one that failed.
function Loop:call_hook(name)
  local functions, place = settings[name].functions, self.hooked[name] + 1
  while functions[place] do
    functions[place]()
    self.hooked[name], place = place, place + 1
  end
end

---The parts of the node that live as long as the loop. The first turn makes them.
function Loop:prepare()
  if self.made then
    return
  end
  self:forbid_exit()
  self:call_hook "on_server_init"
  self:call_hook "on_thread_init"
  local made = nodes.make(self.options, self.notify)
  local wait_queues = {}
  self.hosts, self.wait_queues = {}, wait_queues
  for place, group in ipairs(made.groups) do
    wait_queues[group] = wait_queues[group] or hosts.wait_queue()
    self.hosts[place] = hosts.new(made, group, wait_queues[group], self)
  end
  self.made, self.next_pulse, self.crashed = made, 0, false
end

function Turn:run()
  local loop = self.loop
  if ngx.worker.exiting() and not loop.made then
    return
  end
  loop:prepare()
  loop:forget_failure()
  self.hosts = loop.hosts
  self:spawn()
  local until_ms, jobs = native.now_ms() + TURN_MS, loop.jobs + loops.TURN_JOBS
  while not ngx.worker.exiting() and not loop.stop_requested do
    if native.now_ms() >= until_ms or loop.jobs >= jobs then
      loop:begin_turn(0)
    end
    self:look(WATCH)
    if loop.successor then
      return self:retire()
    end
  end
  self:stop()
end

function Turn:spawn_channel(number, at)
  local loop = self.loop
  self.channels[number] = channels.new(loop.made.node, number, loop.made.url, loop.notify, at)
  self.channels[number]:spawn()
end

function Turn:spawn()
  local loop = self.loop
  self:spawn_channel(channels.WAKES)
  if not loop.made.url.is_cluster then
    self:spawn_channel(channels.COMMANDS)
  end
  loop.notified = false
  self.ticker = ngx.thread.spawn(self.tick_always, self, loop.made.node)
  self:spawn_hosts()
end

---Gives a light thread to each host that has none. That of an earlier turn ends with the job that it runs.
function Turn:spawn_hosts()
  for _, host in ipairs(self.hosts) do
    if host.turn ~= self and not host.is_served then
      self:spawn_host(host)
    end
  end
end

function Turn:spawn_host(host)
  host.turn, host.is_served = self, true
  host.thread = ngx.thread.spawn(self.run_host, self, host)
end

function Turn:run_host(host)
  host:run_until_over(self)
  host.is_served = false
  if self.over then
    self:call()
    self.loop:call_driver()
  end
end

function Turn:serves(host)
  return host.turn == self and host.is_served
end

function Turn:is_working()
  for _, host in ipairs(self.hosts) do
    if self:serves(host) then
      return true
    end
  end
  return false
end

local GONE = { dead = true, zombie = true }

---Starts other light threads for the hosts of those that nginx aborted.
function Turn:replace_aborted()
  for _, host in ipairs(self.hosts) do
    if self:serves(host) and GONE[coroutine.status(host.thread)] then
      host:thread_aborted()
      if not self.over then
        self:spawn_host(host)
      end
    end
  end
end

---Frees its hosts: nginx has ended its timer, and with it all its light threads.
function Turn:abort_hosts()
  for _, host in ipairs(self.hosts) do
    if self:serves(host) then
      host:thread_aborted()
    end
  end
end

---Lets the node do what is due, and wakes the light threads that have something to do then.
function Turn:tick_always(node)
  local loop = self.loop
  while true do
    loop.notified = false
    local wait_ms = node:tick()
    if loop.made.url.is_cluster then
      self:want_masters(node)
    end
    for _, channel in pairs(self.channels) do
      channel:flush()
    end
    for group, wait_queue in pairs(loop.wait_queues) do
      if node:news(group) then
        wait_queue:wake_one()
      end
    end
    if not loop.notified then
      loop.ticks:wait(math.max(wait_ms, 1) / 1000)
    end
  end
end

-- ---- the masters of a cluster

---By the ticker: tells the connections which of them are wanted now. For a master that has none it calls the supervisor, because
---the light threads of a connection can only be ended by the one that began them.
function Turn:want_masters(node)
  local place = 1
  local number, _, _, is_wanted = node:master(place)
  while number do
    local channel = self.channels[number]
    if channel then
      channel:set_wanted(is_wanted)
    else
      self:call()
    end
    place = place + 1
    number, _, _, is_wanted = node:master(place)
  end
end

---Ends the sleep of the supervisor, or of a turn that waits.
function Turn:call()
  if self.calls:count() < 1 then
    self.calls:post()
  end
end

---A connection for each master, and none for those that are gone.
function Turn:follow_masters(node, url)
  local known, place = { [channels.WAKES] = true }, 1
  local number, host, port, is_wanted = node:master(place)
  while number do
    known[number] = true
    if not self.channels[number] then
      self:spawn_channel(number, socket.at(url, host, port))
      self.channels[number]:set_wanted(is_wanted)
    end
    place = place + 1
    number, host, port, is_wanted = node:master(place)
  end
  for old, channel in pairs(self.channels) do
    if not known[old] then
      channel:kill()
      self.channels[old] = nil
    end
  end
end

---The wake-ups of all masters come from any of them: from one that takes commands.
function Turn:aim_wakes()
  local wakes, any = self.channels[channels.WAKES], nil
  for _, channel in pairs(self.channels) do
    if channel ~= wakes and channel.sock and (not any or channel.at == wakes.at) then
      any = channel
    end
  end
  wakes:turn_to(any and any.at)
end

-- ---- the supervisor

---Sleeps; then says that this process answers, looks after the connections and writes the node's events to the log.
function Turn:look(seconds)
  self.calls:wait(seconds)
  local loop = self.loop
  local node, now = loop.made.node, native.now_ms()
  loop.looks = loop.looks + 1
  if now >= loop.next_pulse then
    node:pulse()
    loop.next_pulse = now + math.min(settings.lease_time / 5, 1) * 1000
  end
  for _, channel in pairs(self.channels) do
    channel:watch()
  end
  if loop.made.url.is_cluster then
    self:follow_masters(node, loop.made.url)
    self:aim_wakes()
  end
  self:replace_aborted()
  self:spawn_hosts()
  node_parts.apply_command(loop, node:asked())
  node_parts.log_events(loop.made.node)
end

function Loop:forget_events()
  while self.made.node:event() do end
end

---Hands over to the next turn, which has begun. Jobs that still run keep this timer until they end, or the loop does.
function Turn:retire()
  local loop = self.loop
  self.over = true
  node_parts.log_events(loop.made.node)
  self:disconnect()
  loop:forget_events() -- the loop itself has closed the connections, so their end is not logged
  for _, wait_queue in pairs(loop.wait_queues) do
    wait_queue:wake_all()
  end
  loop.driver, loop.retired[self] = nil, 0
  loop.successor:call()
  while self:is_working() and not loop.abandoned do
    self.calls:wait(WATCH)
    self:replace_aborted()
    loop.retired[self] = loop.retired[self] and 0
  end
  loop.retired[self] = nil
  if loop.abandoned then
    self:kill_threads()
    ngx.exit(ngx.OK)
  end
end

function Turn:disconnect()
  for _, channel in pairs(self.channels) do
    channel:kill()
  end
  if self.ticker then
    ngx.thread.kill(self.ticker)
    self.ticker = nil
  end
end

function Turn:kill_threads()
  for _, host in ipairs(self.hosts) do
    if self:serves(host) then
      host.is_served = false
      ngx.thread.kill(host.thread)
    end
  end
end

function Turn:kill_all()
  pcall(self.disconnect, self)
  pcall(self.kill_threads, self)
end

function Loop:is_busy()
  for _, host in ipairs(self.hosts) do
    if host.busy then
      return true
    end
  end
  return false
end

function Turn:await(seconds, condition)
  local deadline = native.now_ms() + seconds * 1000
  while not condition() do
    if native.now_ms() >= deadline then
      return false
    end
    self:look(0.01)
  end
  return true
end

---Lets what runs finish, hands the rest back, releases all shards and leaves.
function Turn:stop()
  local loop = self.loop
  local node = loop.made.node
  local timeout = loop.options.stop_timeout
  node:stop()
  loop.notify()
  local clean = self:await(timeout, function()
    return node:stopped() and not loop:is_busy()
  end)
  local unfinished = node:unfinished()
  if not clean then
    self:abandon(node)
  end
  loop.ended, loop.abandoned = true, true
  node_parts.log_events(loop.made.node)
  self:kill_all()
  loop:forget()
  log.info("stop", clean and "stopped" or ("stopped; what still ran after %g s: %s"):format(timeout, unfinished))
  if not clean then
    ngx.exit(ngx.OK) -- ends also the light threads that jobs had begun
  end
end

---Ends all jobs, those of earlier turns, too: only the turn that began a light thread may end it. Then it hands them back.
function Turn:abandon(node)
  local loop = self.loop
  self:kill_threads()
  loop.abandoned = true
  for turn in pairs(loop.retired) do
    turn:call()
  end
  self:await(RETIRED_END, function()
    return next(loop.retired) == nil
  end)
  node:abandon()
  loop.notify()
  self:await(HANDED_BACK, function()
    return node:stopped()
  end)
end

return loops
