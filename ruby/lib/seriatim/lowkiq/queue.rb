# frozen_string_literal: true

module Lowkiq
  # Of the inner classes of the gem lowkiq, the one that its benchmark and the monitoring of applications call.
  module Queue
    # The figures of queues.
    class QueueMetrics
      Figures = Struct.new(:length, :fresh, :retries, :morgue_length, :lag, :processed, :failed, :busy, keyword_init: true)

      # @param _redis_pool is not used: Seriatim has connections of its own
      def initialize(_redis_pool = nil) = nil

      # @param names [Array<String>] of the queues of workers that are loaded
      # @return [Array<Figures>] in the order of the names; length, fresh, retries and busy in ids, lag in seconds
      # @raise [Seriatim::Invalid] no worker has a queue of this name
      def call(names)
        names.map { |name| Figures.new(**worker(name).metrics.slice(*Figures.members)) }
      end

      private

      def worker(name)
        Seriatim::Worker.named(name) or raise Seriatim::Invalid, "names: no worker that is loaded has the queue #{name.inspect}"
      end
    end
  end
end
