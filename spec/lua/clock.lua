-- How a runner's steps and jobs sleep: in the turns of a server in this state (turns.lua), or, in nginx, as light threads do.

local native = require "seriatim.native"

local clock = {}

local function is_main()
  local running, main = coroutine.running()
  return running == nil or main == true
end

---@param seconds number
function clock.sleep(seconds)
  if is_main() then
    return native.sleep(seconds)
  end
  local deadline = native.now_ms() + seconds * 1000
  repeat
    coroutine.yield()
  until native.now_ms() >= deadline
end

return clock
