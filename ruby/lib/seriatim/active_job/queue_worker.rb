# frozen_string_literal: true

require "seriatim/active_job/codec"

module Seriatim
  module ActiveJob
    # The worker of an ActiveJob queue: an id's payloads are its jobs, as ActiveJob serializes them.
    # @api private
    module QueueWorker
      # A job that ActiveJob does not retry goes to the morgue at its first failure: retries of two layers would multiply.
      FIXED = { fold: :list, codec: [Codec.method(:dump), Codec.method(:load)].freeze }.freeze

      def self.make(name)
        worker = Module.new.extend(Worker)
        worker.queue_name = name
        worker.batch_size = 1
        worker.max_retry_count = 0
        FIXED.each { |field, value| worker.public_send(:"#{field}=", value) }
        worker.extend(self)
      end

      FIXED.each do |field, _|
        define_method(:"#{field}=") { |_| raise Invalid, "#{inspect}: the ActiveJob adapter needs its own #{field}, which cannot be set" }
      end

      def perform(jobs_by_id, batch)
        jobs_by_id.each do |id, jobs|
          Run.new(self, batch, id, jobs).call
        rescue StandardError => e
          batch.fail(id, e)
        end
      end

      def runs_each_job? = true

      def inspect = "ActiveJob queue #{queue_name.inspect}"
      alias to_s inspect
    end
  end
end
