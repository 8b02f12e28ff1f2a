# frozen_string_literal: true

require "seriatim/testing/memory"
require "seriatim/testing/inline"
require "seriatim/testing/batch"

module Seriatim
  # The test modes of an application: Redis is not used. {Seriatim.testing!} loads this file and chooses one.
  module Testing
    MODES = %i[fake inline disable].freeze
    STACK = :seriatim_testing
    private_constant :STACK

    class << self
      # @param mode [Symbol] :fake, :inline or :disable
      # @return what the block returned; without a block nil
      # @raise [Invalid] an unknown mode; without a block, inside of a block of this thread
      def start(mode, &block)
        mode = Validate.word("testing!", mode, MODES)
        return within(stand_in(mode), &block) if block
        raise Invalid, "testing! needs a block here: this is inside of the block of another testing!" if stack

        @everywhere = stand_in(mode)
        nil
      end

      # What stands in for Redis in this thread: a {Memory}, an {Inline}, or nil: nothing does.
      # @api private
      def current
        blocks = stack
        blocks ? blocks.last : @everywhere
      end

      # Runs all jobs of all workers that are due by +at+, in order of time, as {Worker#drain} does for one worker.
      # @param at [Time, Numeric, nil] Unix seconds; nil: all that will ever be due
      # @param raise [Boolean] false: failures are only recorded, and all retries run; an interrupt, or the end of a Timeout, is raised
      # @return [Integer] the number of batches that ran
      # @raise what perform raised, after it was recorded
      def drain(at: nil, raise: true) = memory.drain_all(at, raise)

      # Forgets all jobs of all workers, dead ones too, and which jobs were pushed.
      # @return [nil]
      def clear = memory(inline: true).clear_all

      # All jobs that were pushed in this mode, in their order, also those that have run: what the matchers look at.
      # @return [Array<Pushed>]
      # @raise [Invalid] no test mode is on
      def pushed
        raise Invalid, "no test mode is on: call Seriatim.testing!(:fake) or Seriatim.testing!(:inline) first" unless current

        current.pushed
      end

      # A batch to call perform with: `OrderWorker.perform(batch.to_h, batch)`. Payloads are written and read by the codec of the worker.
      # @param worker [Worker]
      # @param payloads_by_id [Hash{String, Symbol, Integer => Array}]
      # @param retry_count [Integer] of all ids; -1: the first run
      # @param error [String, nil] the last error of all ids
      # @param scores [Hash{id => Array<Float>}] of the payloads; missing ones are 1.0, 2.0, ...
      # @param contexts [Hash{id => Array<Hash>}] of the payloads, in their order
      # @return [FakeBatch]
      def batch(worker, payloads_by_id, retry_count: -1, error: nil, scores: {}, contexts: {})
        FakeBatch.of(worker, payloads_by_id, retry_count: retry_count, error: error, scores: scores, contexts: contexts)
      end

      # @param inline [Boolean] whether the mode :inline will do, which keeps no jobs, but remembers which were pushed
      # @api private
      def memory(inline: false)
        found = current
        return found if found.instance_of?(Memory) || (inline && found)

        raise Invalid, "the jobs are not kept in memory: call Seriatim.testing!(:fake) first"
      end

      private

      # Of the thread, not of its fibers: an Enumerator inside a test pushes to the same queues.
      def stack = Thread.current.thread_variable_get(STACK)

      def within(stand_in)
        outer = stack
        Thread.current.thread_variable_set(STACK, [*outer, stand_in])
        yield
      ensure
        Thread.current.thread_variable_set(STACK, outer)
      end

      def stand_in(mode)
        case mode
        when :fake then Memory.new
        when :inline then Inline.new
        end
      end
    end

    # Whatever asks for connections gets what stands in for Redis.
    module Detour
      %i[current poppers web web_polls].each do |name|
        define_method(name) { |*arguments| Testing.current || super(*arguments) }
      end
    end

    # One with a URL has connections of its own.
    module NoIck
      private

      def pool = Testing.current || super
    end

    # A server has connections of its own.
    module NoServer
      def start
        Testing.current ? Testing.current.refuse("a server") : super
      end
    end
    Pool.singleton_class.prepend(Detour)
    Ick.prepend(NoIck)
    Server.prepend(NoServer)
    private_constant :Detour, :NoIck, :NoServer
  end

  # What a worker has in the test mode :fake. In another mode each raises {Invalid}, but for clear in :inline.
  module Worker
    # The jobs that wait, by time: one Hash a payload, with :id, :payload, :score (nil: none was given), :perform_in (Time at which its id is
    # due; of a scheduled one its deliver_at), :state (:waiting, :running, :scheduled or :parked), :retry_count, :context, :error.
    # @return [Array<Hash>]
    def jobs = Testing.memory.jobs(self)

    # The morgue, as {#jobs}.
    # @return [Array<Hash>]
    def dead_jobs = Testing.memory.dead_jobs(self)

    # Forgets all jobs, dead ones too.
    # @return [nil]
    def clear = Testing.memory(inline: true).clear(self)

    # Runs the next batch, at the time when it is due.
    # @return [Boolean] false: there was nothing to run
    # @raise what perform raised, after it was recorded
    def perform_one = Testing.memory.perform_one(self)

    # Runs all that is due by +at+, in order of time: retries, scheduled payloads and what perform pushes meanwhile, too.
    # @param at [Time, Numeric, nil] Unix seconds; nil: all that will ever be due
    # @param raise [Boolean] false: failures are only recorded, and all retries run until nothing is left to run; an interrupt, or the end of
    #   a Timeout, is raised
    # @return [Integer] the number of batches that ran
    # @raise what perform raised, after it was recorded
    def drain(at: nil, raise: true) = Testing.memory.drain(self, at, raise)
  end
end
