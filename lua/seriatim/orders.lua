-- What an operator asks of a node, wherever it runs.

local check = require "seriatim.check"
local pool = require "seriatim.pool"

local QUIET, STOP = 1, 2 -- as the core numbers orders

local orders = {}

local function order(name, kind)
  check.text("name", name, 1, 64)
  return pool.ask(function(connection)
    return connection:call("order", name, kind, nil)
  end)
end

---Asks a node of seriatim.nodes() to claim nothing more; what runs goes on, until it is stopped. As TSTP does.
---@param name string
---@return boolean?  false: no such node lives
---@return seriatim.Error? err
function orders.quiet_node(name)
  return order(name, QUIET)
end

---Asks a node of seriatim.nodes() to finish what runs within its deadline, hand the rest back and leave. As TERM does.
---@param name string
---@return boolean?  false: no such node lives
---@return seriatim.Error? err
function orders.stop_node(name)
  return order(name, STOP)
end

return orders
