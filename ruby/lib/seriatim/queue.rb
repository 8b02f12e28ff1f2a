# frozen_string_literal: true

module Seriatim
  # A worker's queue in Redis.
  class Queue
    # @return [Module] the worker
    attr_reader :worker

    def initialize(worker)
      @worker = worker
    end

    # @return [String]
    def name = worker.queue_name

    # @return [Integer] as Redis has it; 0 when the queue was never used
    def shards_count
      settings = worker.queue_settings.dup
      settings[1] = 0
      Pool.current.with { |connection| connection.layout(settings.freeze) }
    end

    # @param jobs [Array<Hash>] as in perform_async, past an override of it
    # @return [PushResult]
    def push(jobs) = Client.push(worker, jobs)

    # @return [Array<Hash>] the records of these ids
    def fetch(ids) = worker.queries.fetch(ids)

    # @return [Hash]
    def metrics = worker.metrics
  end
end
