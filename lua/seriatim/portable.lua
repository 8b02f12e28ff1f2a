-- Handlers of events as text, for the other Lua states of a server's threads: a function goes there as its code, without the
-- local variables of the code around it.

local errors = require "seriatim.errors"
local validate = require "seriatim.client.validate"

local portable = {}

local load_text = loadstring or load -- PUC 5.1's load takes no text

---@param name string  what messages call the function
---@param call function
---@return string
local function code_of(name, call)
  local text = "a server runs, and its threads have Lua states of their own: %s must "
  if type(call) ~= "function" or debug.getinfo(call, "S").what == "C" then
    errors.misuse((text .. "be a Lua function, but is %s"):format(name, validate.describe(call)))
  end
  local variable, value = debug.getupvalue(call, 1)
  if variable == "_ENV" and value == _G then
    variable = debug.getupvalue(call, 2)
  end
  if variable then
    errors.misuse((text .. "not use the local variable %s from outside of it; require or compute it inside"):format(name, variable))
  end
  return ("%q"):format(string.dump(call))
end

---@param given number[]|function|string|nil
local function retry_in_of(given)
  if type(given) == "table" and getmetatable(given) == nil then
    local seconds = {}
    for place, each in ipairs(given) do
      seconds[place] = ("%.17g"):format(each)
    end
    return ("{ %s }"):format(table.concat(seconds, ", "))
  elseif given == nil or type(given) == "string" then
    return "nil" -- the default, which is the only text
  end
  return ("code(%s)"):format(code_of("retry_in", given))
end

local TEXT = [[
local code = ...
return { name = %q, kind = %q, fold = %q, max_running = %d, attempts = %d, retry_in = %s, handler = code(%s) }
]]

---Raises misuse: a function of it cannot go to another state.
---@param given table  name, kind, fold, max_running, attempts, retry_in and handler, as of Events:on
---@return string
function portable.text(given)
  return TEXT:format(
    given.name, given.kind, given.fold, given.max_running, given.attempts, retry_in_of(given.retry_in), code_of("the handler", given.handler)
  )
end

---@param text string  of portable.text, in the same process
---@return table
function portable.restored(text)
  return assert(load_text(text, "=handler"))(function(code)
    return assert(load_text(code, "=handler"))
  end)
end

return portable
