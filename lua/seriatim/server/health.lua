-- Warns if Redis is not configured to keep jobs.

local Connection = require "seriatim.client.connection"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local settings = require "seriatim.settings"

local PATIENCE = 5 -- seconds

local health = {}

local function warn(text)
  log.warn("redis", text)
end

local function judge(maxmemory_policy, appendonly, replicas)
  if maxmemory_policy == nil and appendonly == nil then
    warn("Redis forbids INFO, so maxmemory-policy and appendonly cannot be checked")
  end
  if maxmemory_policy ~= nil and maxmemory_policy ~= "noeviction" then
    warn("maxmemory-policy is " .. maxmemory_policy .. ": Redis may throw jobs away; set it to noeviction")
  end
  if appendonly == false then
    warn("appendonly is no: what Redis has not saved is lost when it stops; set it to yes")
  end
  local wanted = settings.wait_replicas
  if replicas and replicas < wanted then
    warn(("wait_replicas is %d, but Redis has %d replicas: every push will say NOT_REPLICATED"):format(wanted, replicas))
  end
end

local function ask(url, transport)
  local connection, err = Connection.open(url, settings.namespace, transport)
  if not connection then
    error(err, 0)
  end
  local policy, appendonly, replicas = connection:call("health", PATIENCE)
  connection:close()
  if errors.is(appendonly) then
    error(appendonly, 0)
  end
  judge(policy, appendonly, replicas)
end

---Asks the Redis of this URL for its settings.
---@param url string
---@param transport seriatim.TransportMaker?  nil: plain Lua's
function health.check(url, transport)
  local ok, raised = pcall(ask, url, transport)
  if not ok then
    warn("maxmemory-policy and appendonly cannot be checked: " .. tostring(raised))
  end
end

return health
