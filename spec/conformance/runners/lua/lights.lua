-- A server inside nginx, whose jobs run in light threads of this nginx worker: resty.seriatim's worker loop, ended as often as a
-- runner wants. The loop ends with its nginx worker; here it is told that the worker ends.
-- luacheck: globals ngx

local loops = require "resty.seriatim.loop"
local native = require "seriatim.native"
local nodes = require "resty.seriatim.node"

local PAUSE = 0.005 -- seconds between two looks
local BOOT = 60 -- seconds for the loop's begin
local REST = 5 -- seconds for what comes after the jobs' own time

---@type spec.Host
local lights = {}

---Sleeps for at least `seconds`, although nginx counts from the begin of its loop's round.
function lights.sleep(seconds)
  ngx.update_time()
  ngx.sleep(seconds + 0.001)
end

local exiting = false

function ngx.worker.exiting()
  return exiting
end

local function await(seconds, condition)
  local deadline = native.now_ms() + seconds * 1000
  while not condition() do
    if native.now_ms() >= deadline then
      return false
    end
    ngx.sleep(PAUSE)
  end
  return true
end

---@class spec.Server
local Server = {}
Server.__index = Server

---Starts one.
function lights.start(workers, threads)
  local loop = loops.new(nodes.options { workers = workers, threads = threads })
  exiting = false
  loop:arm(0)
  if not await(BOOT, function() return loop.made end) then
    error("the loop does not begin", 0)
  end
  return setmetatable({ loop = loop }, Server)
end

---Lets it run until the condition holds, for `seconds` at most.
---@return boolean  it holds
function Server:await(seconds, condition)
  return await(seconds, condition)
end

---@return boolean  what ran has ended in time
function Server:stop(seconds)
  local loop, deadline = self.loop, native.now_ms() + seconds * 1000
  loop.options.stop_timeout = seconds
  exiting = true
  return await(seconds + REST, function() return loop.ended end) and native.now_ms() <= deadline
end

return lights
