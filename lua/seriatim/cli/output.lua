-- The standard output of the command. What cannot be written ends the command, which would else say that all is well.
local errors = require "seriatim.errors"

local EPIPE = 32

local output = {}

local function must(done, why, number)
  if not done then
    local err = errors.new("OUTPUT", "the output cannot be written: " .. why)
    err.unread = number == EPIPE
    error(err, 0)
  end
end

function output.write(...)
  must(io.stdout:write(...))
end

function output.flush()
  must(io.stdout:flush())
end

return output
