-- Timers that can be armed again when nginx has dropped them: ngx.timer.at returns true, but when the time has come and
-- lua_max_running_timers run already, nginx writes an alert to its log and never calls the handler.

local native = require "seriatim.native"

local LOST_MS = 3000 -- a timer that should have run this long ago was dropped

local timers = {}

---@class seriatim.Timer
---@field armed {due: number}?  nil: none is armed
local Timer = {}
Timer.__index = Timer

---@param handler fun(owner: any)
---@param owner any
---@return seriatim.Timer
function timers.new(handler, owner)
  return setmetatable({ handler = handler, owner = owner }, Timer)
end

local function on_timer(_, self, armed)
  if self.armed == armed then -- else it was late, and another one was armed
    self.armed = nil
    self.handler(self.owner)
  end
end

---Calls the handler in a timer after this time. Does nothing while one is armed that has not run yet and is not lost.
---@param seconds number
---@return boolean? is_armed
---@return string? err  why nginx refuses it
function Timer:arm(seconds)
  local now = native.now_ms()
  if self.armed and now < self.armed.due + LOST_MS then
    return true
  end
  local armed = { due = now + seconds * 1000 }
  local made, err = ngx.timer.at(seconds, on_timer, self, armed)
  self.armed = made and armed or nil
  return self.armed ~= nil, err
end

return timers
