# frozen_string_literal: true

module Seriatim
  # Asks a node, in whatever process it runs, to be quiet or to stop: Seriatim.quiet_node, Seriatim.stop_node. The node
  # hears of it with its next heartbeat.
  module NodeCommands
    # Asks a node to claim nothing more; what runs goes on, until it is stopped. As TSTP does.
    # @param name [String] of {Metrics.nodes}
    # @return [Boolean] false: no such node lives
    def quiet_node(name) = node_command(name, "quiet")

    # Asks a node to finish what runs within its deadline, hand the rest back and leave. As TERM does.
    # @param name [String] of {Metrics.nodes}
    # @return [Boolean] false: no such node lives
    def stop_node(name) = node_command(name, "stop")

    private

    def node_command(name, command)
      name = Validate.text("name", name, 1..64)
      Pool.current.with { |connection| connection.node_command(name, command) }
    end
  end
end
