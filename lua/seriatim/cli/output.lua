-- The standard output of the command. What cannot be written ends the command, which would else say that all is well.
local errors = require "seriatim.errors"

local output = {}

local function must(done, why)
  if not done then
    error(errors.new("OUTPUT", "the output cannot be written: " .. why), 0)
  end
end

function output.write(...)
  must(io.stdout:write(...))
end

function output.flush()
  must(io.stdout:flush())
end

return output
