-- The metrics of queues, and the living nodes.

local inspect = require "seriatim.client.inspect"
local pool = require "seriatim.client.pool"
local unpack = table.unpack or unpack -- PUC 5.4's and LuaJIT's

local metrics = {}

---Counts of ids; lag in seconds; first (when the oldest is due; 0: none waits) and now in Unix seconds.
---@class seriatim.Figures
---@field length integer
---@field scheduled integer  payloads whose deliver_at has not come
---@field stale integer  jobs refused or dropped because of their score (remember_score)
---@field fresh integer
---@field retries integer
---@field morgue_length integer
---@field lag number
---@field processed integer
---@field failed integer
---@field busy integer
---@field parked integer
---@field unproven integer
---@field suspect integer
---@field refused integer
---@field morgue_removed integer  dead ids that morgue_max_age and morgue_max_count removed
---@field first number
---@field now number
---@field paused integer

---Those of one shard, with its owner.
---@class seriatim.ShardFigures: seriatim.Figures
---@field lease integer
---@field fence integer
---@field owner string?

---Numbers of shards before and after, and how far the servers are with the ids.
---@class seriatim.Resharding
---@field from integer
---@field to integer
---@field shards_left integer  of the first number: shards that ids still leave
---@field ids_moved integer
---@field ids_left integer  an estimate

---Those of a queue and of each of its shards.
---@class seriatim.Metrics: seriatim.Figures
---@field shards seriatim.ShardFigures[]
---@field resharding seriatim.Resharding?  nil: no ids move

---A living server process.
---@class seriatim.NodeInfo: seriatim.NodeFields
---@field name string
---@field description string  host, process and versions, as the HTTP API has it
---@field expires_in number  seconds
---@field state string  "working", "quiet" or "stopping"

local FIGURES = {
  "length", "scheduled", "stale", "fresh", "retries", "morgue_length", "lag", "processed", "failed", "busy", "parked", "unproven",
  "suspect", "refused", "morgue_removed", "first", "now", "paused", "lease", "fence", "owner", "shards", "resharding",
}
local Metrics = inspect.class("seriatim.Metrics", FIGURES)
local ShardFigures = inspect.class("seriatim.ShardFigures", FIGURES)
-- definitions: node fields, written by script/embed from core/definitions/nodes.json

local NODE_FIELDS = { "language", "version", "threads", "since", "rss", "clock_skew" }

-- end of definitions
local NodeInfo = inspect.class("seriatim.NodeInfo", { "name", "description", "expires_in", "state", unpack(NODE_FIELDS) })

local function set_metatables(rows, class)
  for _, row in ipairs(rows) do
    setmetatable(row, class)
  end
end

---@param worker seriatim.Worker
---@return seriatim.Metrics?  nil: Redis cannot be reached or refuses
---@return seriatim.Error? err
function metrics.of(worker)
  local found, err = pool.ask(function(connection)
    return connection:call("metrics", connection:number(worker:queue_settings()), nil)
  end)
  if not found then
    return nil, err
  end
  set_metatables(found.shards, ShardFigures)
  return setmetatable(found, Metrics)
end

---The living nodes.
---@return seriatim.NodeInfo[]?
---@return seriatim.Error? err
function metrics.nodes()
  local found, err = pool.ask(function(connection) return connection:call("nodes", nil) end)
  if not found then
    return nil, err
  end
  set_metatables(found, NodeInfo)
  return found
end

---Names of all queues that Redis holds, whoever made them.
---@return string[]?
---@return seriatim.Error? err
function metrics.queues()
  return pool.ask(function(connection) return connection:call("queues", nil) end)
end

return metrics
