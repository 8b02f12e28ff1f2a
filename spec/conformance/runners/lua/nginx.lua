-- The same as conformance.lua inside nginx: cosockets, and the worker loop of light threads.
--
--   luajit spec/conformance/runners/lua/nginx.lua [FILE or part of a NAME...]      with LUA_PATH and LUA_CPATH at lua/
--
-- This process starts the Redis and an nginx of one process; the suite runs in a timer of it and ends it.

local HERE = arg[0]:match("^(.*)/[^/]*$") or "."

local CONFIGURATION = [[
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
master_process off;
daemon off;
pid nginx.pid;
error_log stderr error;
env CONFORMANCE_LOG;
env CONFORMANCE_REDIS;
env CONFORMANCE_URL;

events {
  worker_connections 1024;
}

http {
  access_log off;
  lua_package_path "@here@/?.lua;@here@/../../../../lua/?.lua;@here@/../../../../lua/spec/?.lua;;";
  lua_package_cpath "@here@/../../../../lua/lib/5.1/?.so;;";
  lua_socket_log_errors off;
  init_worker_by_lua_block {
    ngx.timer.at(0, function()
      local words = { @words@ }
      require("in_nginx")(@folder@, "@here@/../..", words)
    end)
  }
}
]]

package.path = ("%s/../../../../lua/spec/?.lua;%s"):format(HERE, package.path)

local RedisServer = require "support.redis_server"

local function absolute(folder)
  local pipe = assert(io.popen(("cd '%s' && pwd"):format(folder)))
  local path = pipe:read("*l")
  pipe:close()
  return path
end

local function write_configuration(folder)
  local words = {}
  for place, word in ipairs(arg) do
    words[place] = ("%q"):format(word)
  end
  local values = { here = absolute(HERE), folder = ("%q"):format(folder), words = table.concat(words, ", ") }
  local file = assert(io.open(folder .. "/nginx.conf", "w"))
  file:write((CONFIGURATION:gsub("@(%l+)@", values)))
  file:close()
end

local redis = RedisServer.start() -- whose folder is nginx's own, even if the suite uses another Redis
write_configuration(redis.folder)
local ended = os.execute(("nginx -p %s -c nginx.conf -e stderr"):format(redis.folder))
redis:remove()
os.exit((ended == true or ended == 0) and 0 or 1)
