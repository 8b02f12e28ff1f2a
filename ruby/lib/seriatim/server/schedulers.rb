# frozen_string_literal: true

module Seriatim
  # Chooses which shard of a group is next. The built-in schedulers are in the core. An application may give its own: a
  # callable that gets the list of candidates and returns one of them (or nil, to wait). The list is the scheduler's own: it
  # may sort or shorten it.
  module Schedulers
    # A shard that has something to run: `lag` in seconds since its oldest id became due, `size` in claimed ids.
    Candidate = Struct.new(:worker, :index, :lag, :size) do
      # @api private
      def same_shard?(other) = worker.equal?(other.worker) && index == other.index
    end

    # One of the core's, by its number there.
    Builtin = Struct.new(:number)

    LAG = Builtin.new(0).freeze
    SEQ = Builtin.new(1).freeze
    PRIORITY = Builtin.new(2).freeze

    # @api private
    # @return [Builtin, #call] what build_scheduler gives
    # @raise [UsageError] it is no scheduler
    def self.build
      scheduler = Seriatim.build_scheduler.call
      return scheduler if scheduler.is_a?(Builtin) || scheduler.respond_to?(:call)

      Validate.misuse("build_scheduler", "give one of Seriatim's schedulers or a callable (list of candidates -> one of them, or nil)", scheduler)
    end

    # The module's own constructors.
    module Builders
      # The shard that waits longest (default).
      def build_lag_scheduler = LAG

      # One shard after another.
      def build_seq_scheduler = SEQ

      # The worker with the highest `priority`, among equals the shard that waits longest.
      def build_priority_scheduler = PRIORITY
    end
  end
end
