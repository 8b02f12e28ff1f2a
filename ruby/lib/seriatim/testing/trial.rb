# frozen_string_literal: true

module Seriatim
  module Testing
    # Runs a batch that a {Memory} gave, with what a server does around it: codecs, middlewares, perform, hooks, outcomes. It stands in for
    # the server, its runner and the thread's host.
    # @api private
    class Trial
      # As an execution of a server, which remembers the first failure; what ends the test comes before it.
      class Attempt < Execution
        attr_reader :failure

        def ends_test? = ends?(@failure)

        private

        # A Timeout before that of Ruby 3.2 throws, which ends the test without this.
        def ends?(error) = error.is_a?(SignalException) || (defined?(::Timeout::ExitException) && error.is_a?(::Timeout::ExitException))

        def remember(error)
          @failure = error if @failure.nil? || (ends?(error) && !ends_test?)
        end

        def attempted(error)
          remember(error)
          super
        end

        def reject(id, place, broken)
          remember(broken.values.first)
          super
        end

        def fail_id(place, error, elapsed = nil)
          remember(error)
          super
        end

        def fail_plainly(place, error)
          remember(error)
          super
        end
      end

      Reference = Struct.new(:module) do
        alias_method :current, :module
        def reload = nil
      end
      private_constant :Attempt, :Reference

      # @param time [Integer] Unix time in microseconds, at which the run ends
      def initialize(memory, worker, time)
        @memory = memory
        @worker = worker
        @time = time
      end

      # @raise what perform raised, or reported of an id; without `raises` only what ends the test itself
      def run(shard, rows, raises)
        attempt = execute(Given.new(self, :run, shard, rows))
        tell
        failure = attempt.failure
        return unless failure && (raises || attempt.ends_test?)

        raise failure.is_a?(Exception) ? failure : Error.new(failure)
      end

      def settle_id(row, kind, seconds = 0.0, text = nil, payloads = nil)
        @memory.settle(@worker, row[0], row[1], kind, seconds, text, payloads, @time)
      end

      # ---- as a host

      def server = self
      def runner = self
      def scheduled? = false

      def advance(given)
        given.done_all
        given.settle
        nil
      end

      # ---- as a server

      def worker(_number) = Reference.new(@worker)
      def forked? = false
      def leaving? = false

      # ---- as a runner

      def failure(_given, _place) = nil
      def extend_time(_given, _place, _seconds) = nil
      def flush(_given) = nil
      def settle(given) = given.settle

      def checkpoint(given, place, count)
        raise Invalid, "the id has fewer payloads in this batch" if count > given.job(place)[5].size

        settle_id(given.job(place), :checkpoint, 0.0, nil, count)
      end

      private

      def execute(given)
        attempt = Attempt.new(self, given)
        Thread.handle_interrupt(Interrupts::MASKED) { attempt.call }
        attempt
      end

      # retries_exhausted
      def tell
        until (rows = @memory.exhausted(@worker)).empty?
          execute(Given.new(self, :exhausted, 0, rows))
        end
      end
    end

    # Stands in for a delivery of the runner. Its outcomes are written when it is settled.
    # @api private
    class Given
      attr_reader :kind, :shard

      def initialize(trial, kind, shard, rows)
        @trial = trial
        @kind = kind
        @shard = shard
        @rows = rows
        @outcomes = {}
        @begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @held = true
      end

      def worker = 0
      def held? = @held
      def elapsed = Process.clock_gettime(Process::CLOCK_MONOTONIC) - @begun
      def size = @rows.size
      def job(place) = @rows.fetch(place)
      def handles(place, _queue_name) = job(place)[7] || Array.new(job(place)[5].size) # none of a batch that a test has made

      # @return [Hash, nil] nil: one cannot be read, or it is not to be run
      def payloads_by_id
        return unless kind == :run

        @rows.to_h { |row| [row[0], row[5].map { |bytes, *| Native.load(bytes) }] }
      rescue Undecodable
        nil
      end

      def done(place) = @outcomes[place] = [:done]
      def done_all = size.times { |place| done(place) }
      def fail(place, error, seconds) = @outcomes[place] = [:fail, seconds, error]
      def snooze(place, seconds, payload) = @outcomes[place] = [:snooze, seconds, payload]
      def reject(place, places, reason) = @outcomes[place] = [:reject, 0.0, reason, places]

      def settle
        @held = false
        return unless kind == :run

        @rows.each_with_index { |row, place| @trial.settle_id(row, *@outcomes.fetch(place, [:release])) }
      end
    end
  end
end
