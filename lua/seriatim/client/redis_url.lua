-- Finds the URL of Redis: seriatim.redis, then SERIATIM_REDIS_URL, then the variable that REDIS_PROVIDER names, then
-- REDIS_URL, then a private one.

local private_redis = require "seriatim.client.private_redis"
local validate = require "seriatim.client.validate"
local settings = require "seriatim.settings"

local redis_url = {}

local function configured()
  local given = settings.redis
  if given == nil then
    return nil
  end
  local url = given
  if type(given) ~= "string" then
    url = given()
  end
  if type(url) == "string" and url ~= "" then
    return url
  end
  return validate.refuse("redis", "a URL, or a function that gives one", url)
end

local function variable(name)
  local value = name and name ~= "" and os.getenv(name)
  return value ~= "" and value or nil
end

local function from_environment()
  return variable("SERIATIM_REDIS_URL") or variable(os.getenv("REDIS_PROVIDER")) or variable("REDIS_URL")
end

---The URL of the Redis in use; starts the private one if there is no other.
---@return string?
---@return seriatim.Error? err
function redis_url.resolve()
  local url = configured() or from_environment()
  if url then
    return url
  end
  return private_redis.url()
end

---Does nothing name a Redis, so that a private one would be used?
---@return boolean
function redis_url.is_none()
  return settings.redis == nil and from_environment() == nil
end

return redis_url
