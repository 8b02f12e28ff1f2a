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
      settings = worker.queue_settings.merge(shards_count: 0)
      Pool.current.with { |connection| connection.layout(settings) }
    end

    # The shard that an id lies in, by the number of shards that Redis has.
    # @param id [String, Symbol, Integer]
    # @return [Integer, nil] from 0; nil when the queue was never used
    def shard_of(id)
      text = Jobs.one_id_text(id)
      count = shards_count
      Native.shard_of(text, count) if count.positive?
    end

    # @param jobs [Array<Hash>] as in perform_async, past an override of it; so for the keywords
    # @return [PushResult]
    def push(jobs, **keywords) = Push.call(worker, jobs, **keywords)

    # @return [Array<Hash>] the records of these ids
    def fetch(ids) = worker.queries.fetch(ids)

    # @return [Hash]
    def metrics = worker.metrics
  end
end
