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

---The variable that holds the URL, if one does.
local function variable()
  for _, name in ipairs { "SERIATIM_REDIS_URL", os.getenv("REDIS_PROVIDER") or "", "REDIS_URL" } do
    if (os.getenv(name) or "") ~= "" then
      return name
    end
  end
end

---The URL of the Redis in use; starts the private one if there is no other.
---@return string?
---@return seriatim.Error? err
function redis_url.resolve()
  local name = variable()
  local url = configured() or name and os.getenv(name)
  if url then
    return url
  end
  return private_redis.url()
end

---The setting or the variable that holds the URL; nil: none does.
---@return string?
function redis_url.named_by()
  return settings.redis == nil and variable() or settings.redis ~= nil and "seriatim.redis" or nil
end

---Does nothing name a Redis, so that a private one would be used?
---@return boolean
function redis_url.is_none()
  return redis_url.named_by() == nil
end

return redis_url
