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
        behind = jobs_by_id.keys
        while (id = behind.shift)
          run_id(id, jobs_by_id[id], batch)
          break if ActiveJob.stopping? # another server runs the others
        end
      ensure
        settle_others(id, behind, batch) if id
      end

      def runs_each_job? = true

      def inspect = "ActiveJob queue #{queue_name.inspect}"
      alias to_s inspect

      private

      def run_id(id, jobs, batch)
        Run.new(self, batch, id, jobs).call
      rescue StandardError => e
        batch.fail(id, e)
      end

      # What is no StandardError ends the call, as the end of the thread does, and fails each id without an outcome. That is to be the
      # one that ran: the jobs of those before it have ended, and those behind it have not begun.
      def settle_others(id, behind, batch)
        (batch.ids - behind - [id]).each { |before| batch.done(before) unless batch.outcome(before) }
        behind.each { |other| batch.snooze(other, 0) }
      end
    end
  end
end
