-- Every test has a Redis that is empty, and default settings but for a short lease.

local seriatim = require "seriatim"
local RedisServer = require "support.redis_server"
local jobs = require "support.jobs"

local suite = {}

---The server of the file's tests.
---@type spec.RedisServer
suite.redis = nil

---busted: its functions, as the file that calls this sees them.
function suite.use(busted)
  busted.setup(function() suite.redis = RedisServer.start() end)
  busted.before_each(function()
    suite.redis:flush()
    seriatim.reset_settings()
    local format_error = seriatim.format_error
    seriatim.format_error = function(raised) return format_error(raised) end -- no traceback: most tests compare messages
    seriatim.redis = suite.redis.url
    seriatim.push_timeout = 50 -- a loaded machine may hold a push up
    seriatim.poll_interval = 0.2
    seriatim.lease_time = 5
  end)
  busted.after_each(function()
    jobs.stop_servers()
    seriatim.reset_settings()
  end)
  busted.teardown(function() suite.redis:remove() end)
  return suite
end

---Calls the function, which must raise a text that matches; gives it.
---@param pattern string
---@param called function
---@return string
function suite.raises(pattern, called)
  local ok, raised = pcall(called)
  assert(not ok, "nothing was raised")
  local text = tostring(raised):gsub("^.-:%d+: ", ""):gsub("^seriatim: ", "")
  assert(text:find(pattern), ("%q does not match %q"):format(text, pattern))
  return tostring(raised)
end

---Output of a program of this interpreter, with these variables of the environment and no others.
---@param variables table<string, string>
---@param program string
---@return string
function suite.run(variables, program)
  local words = { "env -i PATH=\"$PATH\"" }
  for name, value in pairs(variables) do
    words[#words + 1] = ("%s='%s'"):format(name, value)
  end
  local command = "LUA_PATH='%s' LUA_CPATH='%s' %s -e '%s' 2>&1"
  words[#words + 1] = command:format(package.path, package.cpath, suite.interpreter(), program)
  local pipe = assert(io.popen(table.concat(words, " ")))
  local text = pipe:read("*a")
  pipe:close()
  return text
end

function suite.interpreter()
  if type(rawget(_G, "jit")) == "table" then
    return "luajit"
  end
  return _VERSION == "Lua 5.1" and "lua5.1" or "lua5.4"
end

---Is it the Lua that has integers of its own?
suite.has_integers = math.type ~= nil
suite.has_int64 = type(rawget(_G, "jit")) == "table"

return suite
