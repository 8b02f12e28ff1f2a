# frozen_string_literal: true

module Seriatim
  # What an operator asks of a node, wherever it runs: Seriatim.quiet_node, Seriatim.stop_node.
  module NodeCommands
    QUIET = 1 # as the core numbers orders
    STOP = 2
    private_constant :QUIET, :STOP

    # Asks a node to claim nothing more; what runs goes on, until it is stopped. As TSTP does.
    # @param name [String] of {Metrics.nodes}
    # @return [Boolean] false: no such node lives
    def quiet_node(name) = order(name, QUIET)

    # Asks a node to finish what runs within its deadline, hand the rest back and leave. As TERM does.
    # @param name [String] of {Metrics.nodes}
    # @return [Boolean] false: no such node lives
    def stop_node(name) = order(name, STOP)

    private

    def order(name, kind)
      name = Validate.text("name", name, 1..64)
      Pool.current.with { |connection| connection.order(name, kind) }
    end
  end
end
