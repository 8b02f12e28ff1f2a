-- Finds the URL of Redis: seriatim.redis, then SERIATIM_REDIS_URL, then the variable that REDIS_PROVIDER names, then
-- REDIS_URL, then a private one.

local private_redis = require "seriatim.client.private_redis"
local validate = require "seriatim.client.validate"
local settings = require "seriatim.settings"

local redis_url = {}

---The variable that holds the URL, if one does.
local function variable()
  for _, name in ipairs { "SERIATIM_REDIS_URL", os.getenv("REDIS_PROVIDER") or "", "REDIS_URL" } do
    if (os.getenv(name) or "") ~= "" then
      return name
    end
  end
end

---The URL of the Redis in use; starts the private one if there is no other. Raises misuse: what should hold a URL holds none.
---@return string?
---@return seriatim.Error? err
function redis_url.resolve()
  local given, name = settings.redis, variable()
  if type(given) == "string" then
    return given
  elseif given ~= nil then
    return validate.url("redis", given(), "a URL, or a function that gives one")
  elseif name then
    return validate.url(name, os.getenv(name), "a URL")
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
