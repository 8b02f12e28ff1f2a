-- Runs spec/conformance/vectors and scenarios through the package's public API. See spec/conformance/README.md.
--
--   lua5.4 spec/conformance/runners/lua/conformance.lua [FILE or part of a NAME...]      or luajit, with LUA_PATH and LUA_CPATH at lua/

local HERE = arg[0]:match("^(.*)/[^/]*$") or "."
local SPEC = HERE .. "/../.."
package.path = ("%s/?.lua;%s/../../../../lua/spec/?.lua;%s"):format(HERE, HERE, package.path)

local RedisServer = require "support.redis_server"
local Suite = require "suite"

local elsewhere = os.getenv("CONFORMANCE_REDIS")
local redis = elsewhere and RedisServer.at(elsewhere, os.getenv("CONFORMANCE_URL")) or RedisServer.start()
local ran, well = xpcall(function()
  return Suite.new(SPEC, arg, redis, require "turns", print):run()
end, debug.traceback)
if not elsewhere then
  redis:remove()
end
if not ran then
  io.stderr:write(well, "\n")
end
os.exit(ran and well and 0 or 1)
