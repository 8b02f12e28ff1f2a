-- Splitters decide which shards a server runs: functions that get the list of all shards (workers in list order, shard 0 to
-- n-1) and return groups of them, or nil for no fixed groups.

local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local splitters = {}

---A shard of a worker's queue, as splitters see it.
---@class seriatim.Shard
---@field worker seriatim.Worker
---@field index integer  from 0

---@alias seriatim.Splitter fun(shards: seriatim.Shard[]): seriatim.Shard[][]?

local SPLITTER = "give a function (list of shards -> list of groups of shards, or nil)"
local GROUPS = "give a list of groups, each a list of shards out of those it was given, or nil"

local threads -- of the server that asks a splitter; nil: none does

---What seriatim.build_splitter gives. Raises USAGE: it cannot be called.
---@return seriatim.Splitter
function splitters.build()
  local splitter = settings.build_splitter()
  return validate.is_callable(splitter) and splitter or validate.misuse("build_splitter", SPLITTER, splitter)
end

local function refuse(what)
  errors.usage(("build_splitter: the splitter must %s, not %s"):format(GROUPS, what))
end

local function check_list(given)
  local is_list, what = validate.is_list(given)
  if not is_list then
    refuse(what)
  end
end

---The shard that is meant, which may be a copy; nil: it is none of those that the splitter was given.
local function known_shard(shard, known)
  local indexes = type(shard) == "table" and known[shard.worker or false]
  return indexes and indexes[shard.index] or nil
end

---known: worker -> index -> shard. seen: the shards of other groups.
local function check_group(group, known, seen)
  check_list(group)
  for _, given in ipairs(group) do
    local shard = known_shard(given, known)
    if not shard then
      refuse(validate.describe(given))
    elseif seen[shard] then
      local text = "build_splitter: the splitter gives shard %d of queue %s twice"
      errors.usage(text:format(shard.index, validate.shown(shard.worker.queue_name)))
    end
    seen[shard] = true
  end
end

local function filled(groups, known)
  local found, seen = {}, {}
  check_list(groups)
  for _, group in ipairs(groups) do
    check_group(group, known, seen)
    found[#found + 1] = #group > 0 and group or nil
  end
  return #found > 0 and found or errors.usage("build_splitter: the splitter gives this node no shard")
end

---What the splitter gives this node, without empty groups; nil: the nodes share the shards. Ours deal them to `count` threads, also
---when a splitter of the application's own calls them. Raises USAGE: it is anything but groups of different shards, or no shard
---at all.
---@param splitter seriatim.Splitter
---@param shards seriatim.Shard[]
---@param count integer
---@return seriatim.Shard[][]?
function splitters.groups(splitter, shards, count)
  local own, known = {}, {}
  for place, shard in ipairs(shards) do
    own[place] = shard -- it may sort or shorten its list
    known[shard.worker] = known[shard.worker] or {}
    known[shard.worker][shard.index] = shard
  end
  threads = count
  local split, groups = pcall(splitter, own)
  threads = nil
  if not split then
    error(groups, 0)
  end
  return groups ~= nil and filled(groups, known) or nil
end

---The living nodes share all shards evenly, anew whenever one joins, leaves or dies (default).
---@return seriatim.Splitter
function splitters.build_balanced_splitter()
  return function() return nil end
end

---All shards on this node, dealt to the server's threads.
---@return seriatim.Splitter
function splitters.build_default_splitter()
  return splitters.build_by_node_splitter(1, 0)
end

---Every number_of_nodes-th shard, from node_number (0 for the first node) on, dealt to the server's threads.
---@param number_of_nodes integer
---@param node_number integer
---@return seriatim.Splitter
function splitters.build_by_node_splitter(number_of_nodes, node_number)
  validate.integer("number_of_nodes", number_of_nodes, 1, 100000)
  validate.integer("node_number", node_number, 0, number_of_nodes - 1)
  return function(shards)
    local groups = {}
    for number, hand in ipairs(native.split(#shards, number_of_nodes, node_number, threads or settings.threads_per_node)) do
      groups[number] = {}
      for place, at in ipairs(hand) do
        groups[number][place] = shards[at]
      end
    end
    return groups
  end
end

settings.set_default("build_splitter", splitters.build_balanced_splitter)

return splitters
