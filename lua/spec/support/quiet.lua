-- busted's helper: what the library logs is shown where a test fails, and nowhere else.
local busted = require "busted"
local log = require "seriatim.log"

local lines = {}

log.output = function(line)
  lines[#lines + 1] = line
end

busted.subscribe({ "test", "start" }, function()
  lines = {}
  return nil, true
end)

busted.subscribe({ "test", "end" }, function(element, _, status)
  if status == "failure" or status == "error" then
    io.stdout:write(("\nwhat was logged in %q:\n%s\n"):format(element.name, table.concat(lines, "\n")))
  end
  return nil, true
end)
