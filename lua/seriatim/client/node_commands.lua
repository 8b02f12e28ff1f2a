-- Asks a node, in whatever process it runs, to be quiet or to stop. The node hears of it with its next heartbeat.

local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"

local node_commands = {}

local function send(name, command)
  validate.text("name", name, 1, 64)
  return pool.ask(function(connection)
    return connection:call("node_command", name, command, nil)
  end)
end

---Asks a node of seriatim.nodes() to claim nothing more; what runs goes on, until it is stopped. As TSTP does.
---@param name string
---@return boolean?  false: no such node lives
---@return seriatim.Error? err
function node_commands.quiet_node(name)
  return send(name, "quiet")
end

---Asks a node of seriatim.nodes() to finish what runs within its deadline, hand the rest back and leave. As TERM does.
---@param name string
---@return boolean?  false: no such node lives
---@return seriatim.Error? err
function node_commands.stop_node(name)
  return send(name, "stop")
end

return node_commands
