-- The application that the servers load with -r, in each thread again.

local seriatim = require "seriatim"
local workload = require "workload"

for name, value in pairs(workload.settings.seriatim or {}) do
  seriatim[name] = value
end

local nodes = workload.settings.nodes
if math.type(nodes) then
  function seriatim.build_splitter()
    return seriatim.build_by_node_splitter(nodes, workload.settings.node)
  end
end

local workers = {}
for queue, fields in pairs(workload.settings.workers) do
  workers[#workers + 1] = workload.worker(queue, fields)
end
seriatim.workers = workers
