# frozen_string_literal: true

module Seriatim
  # The figures of queues.
  module Metrics
    module_function

    # @return [Hash] length, scheduled (payloads), stale (jobs), fresh, retries, morgue_length, lag (seconds), processed, failed, busy, parked and more;
    #   shards: the same for each shard, with its owner; resharding: nil, or how far actions.reshard is: from and to (numbers of shards),
    #   shards_left (that ids still leave), ids_moved, ids_left (an estimate)
    def of(worker) = Pool.current.with { |connection| connection.metrics(worker.queue_settings) }

    # The living nodes.
    # @return [Array<Hash>] name, description (its own text: host, process and versions), expires_in (seconds), state ("working", "quiet",
    #   "stopping"), and the fields of core/definitions/nodes.json, nil where the node does not tell
    def nodes = Pool.current.with(&:nodes)
  end
end
