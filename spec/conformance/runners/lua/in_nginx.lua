-- What nginx.lua lets nginx do.

require "resty.seriatim"

local RedisServer = require "support.redis_server"
local Suite = require "suite"
local lights = require "lights"
local native = require "seriatim.native"

local function write(line)
  io.stdout:write(line, "\n")
  io.stdout:flush()
end

---Runs the suite on the Redis of this folder, and ends the process.
return function(folder, spec, words)
  local redis = RedisServer.at(os.getenv("CONFORMANCE_REDIS") or folder, os.getenv("CONFORMANCE_URL"))
  local ran, well = xpcall(function()
    return Suite.new(spec, words, redis, lights, write):run()
  end, debug.traceback)
  if not ran then
    write(well)
  end
  native.exit(ran and well and 0 or 1)
end
