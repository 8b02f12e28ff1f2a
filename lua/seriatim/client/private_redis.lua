-- The private Redis, for development: started only if no URL is set, never in production. It lies in a data folder, on a
-- Unix socket, with its append-only file on; all processes that use the folder share it, and it ends with the last of them.
-- The folder is SERIATIM_DATA, or seriatim below XDG_DATA_HOME (~/.local/share).

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local private_redis = {}

---The variables that may name the environment, the first one first.
private_redis.ENVIRONMENTS = { "SERIATIM_ENV", "RAILS_ENV", "RACK_ENV", "APP_ENV" }

---Raised where nothing names a Redis in production. The command ends with exit code 3 then, as for a Redis that cannot be
---reached.
private_redis.REFUSED = "no Redis: set REDIS_URL or seriatim.redis (in production Seriatim starts no private one)"

local redis

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

---Where it lies.
---@return string
function private_redis.folder()
  local home = os.getenv("HOME") or "."
  local given = variable("SERIATIM_DATA")
  if given then
    return (given:gsub("^~/", function() return home .. "/" end))
  end
  return (variable("XDG_DATA_HOME") or home .. "/.local/share") .. "/seriatim"
end

---The first of those that is set, or "development".
---@return string
function private_redis.environment()
  for _, name in ipairs(private_redis.ENVIRONMENTS) do
    if variable(name) then
      return os.getenv(name)
    end
  end
  return "development"
end

local function start(folder)
  if private_redis.environment() == "production" then
    errors.usage(private_redis.REFUSED)
  end
  local made, kind, message = errors.guard(native.private_redis, folder)
  if not made then
    return errors.failure(kind, message)
  end
  local text = "%s the private Redis in %s; set REDIS_URL to use another"
  require("seriatim.log").notice("redis", text:format(made:started() and "started" or "joined", folder))
  return made
end

---Starts or joins it and gives its URL. Raises USAGE in a production environment.
---@return string?
---@return seriatim.Error? err
function private_redis.url()
  if not redis then
    local made, err = start(private_redis.folder())
    if not made then
      return nil, err
    end
    redis = made
  end
  return redis:url()
end

---By this Lua state.
---@return boolean
function private_redis.is_used()
  return redis ~= nil
end

---Ends this state's use; the last one stops Redis.
function private_redis.release()
  local used = redis
  redis = nil
  if used then
    used:release()
  end
end

return private_redis
