-- Who runs which shards: functions that get the list of all shards (workers in list order, shard 0 to n-1) and return groups
-- of them, or nil for no fixed groups.

local check = require "seriatim.check"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local splitters = {}

---A shard of a worker's queue, as splitters see it.
---@class seriatim.Shard
---@field worker seriatim.Worker
---@field index integer  from 0

---@alias seriatim.Splitter fun(shards: seriatim.Shard[]): seriatim.Shard[][]?

---The living nodes share all shards evenly, anew whenever one joins, leaves or dies (default).
---@return seriatim.Splitter
function splitters.build_balanced_splitter()
  return function() return nil end
end

---All shards on this node, dealt to threads_per_node threads.
---@return seriatim.Splitter
function splitters.build_default_splitter()
  return splitters.build_by_node_splitter(1, 0)
end

---Every number_of_nodes-th shard, from node_number (0 for the first node) on, dealt to threads_per_node threads.
---@param number_of_nodes integer
---@param node_number integer
---@return seriatim.Splitter
function splitters.build_by_node_splitter(number_of_nodes, node_number)
  check.integer("number_of_nodes", number_of_nodes, 1, 100000)
  check.integer("node_number", node_number, 0, number_of_nodes - 1)
  return function(shards)
    local groups = {}
    for number, hand in ipairs(native.split(#shards, number_of_nodes, node_number, settings.threads_per_node)) do
      groups[number] = {}
      for place, at in ipairs(hand) do
        groups[number][place] = shards[at]
      end
    end
    return groups
  end
end

return splitters
