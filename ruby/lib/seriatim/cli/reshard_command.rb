# frozen_string_literal: true

require "json"

module Seriatim
  class CLI
    # Gives a queue another number of shards, and shows how far its servers are with its ids. Nothing depends on this process: it may be
    # killed at any moment and run again.
    # @api private
    class ReshardCommand
      LOOK_SECONDS = 0.5 # between two looks; after one that took long, ten times as long
      SHOW_SECONDS = 5   # between two lines that differ
      ALIVE_SECONDS = 60 # after which a line that has not changed is shown again

      # @param worker [Worker] of a queue that is there
      # @param options [Hash] no_wait, status, json
      def initialize(worker, options)
        @worker = worker
        @options = options
        @name = Log.utf8(worker.queue_name)
        $stdout.sync = true
      end

      # @param shards [Integer, nil] nil: only says how far it is
      # @return [Integer] the exit code
      def run(shards = nil)
        begun = shards && @worker.actions.reshard(shards).positive?
        look
        say_begun(shards, begun) if shards
        report if shards.nil? || @options[:no_wait] || watch(shards)
        STOPPED
      end

      private

      # Also tells whether a living node owns one of the shards that ids leave.
      def look
        @metrics = @worker.metrics
        @move = @metrics[:resharding]
        return unless @move

        owners = @metrics[:shards].first(@move[:from]).filter_map { |shard| shard[:owner] }
        @served = Metrics.nodes.any? { |node| owners.include?(node[:name]) }
      end

      def say_begun(shards, begun)
        return say("the queue #{@name.inspect} is given #{shards} shards") if begun

        say("the ids of the queue #{@name.inspect} are on their way to #{shards} shards already") if goes_on?(shards)
      end

      def goes_on?(shards) = @move && @move[:to] == shards

      # Until the ids have moved.
      # @return [Boolean] false: it was interrupted before
      def watch(shards)
        shown = nil
        while goes_on?(shards)
          line = progress
          age = shown ? now - shown[:at] : ALIVE_SECONDS
          if age >= ALIVE_SECONDS || (age >= SHOW_SECONDS && line != shown[:line])
            say(line)
            shown = { line: line, at: now }
          end
          look_again
        end
        true
      rescue Interrupt
        say("the servers go on with the ids of the queue #{@name.inspect}")
        false
      end

      def look_again
        sleep([LOOK_SECONDS, 10 * @took.to_f].max)
        began = now
        look
        @took = now - began
      end

      def progress
        line = "#{@move[:ids_moved]} ids moved, about #{@move[:ids_left]} left; ids leave #{@move[:shards_left]} of #{@move[:from]} shards"
        @served ? line : "#{line}; no living server owns one of them: ids move when one does"
      end

      def report
        return puts(Log.printable(JSON.generate(queue: @name, shards: @move ? @move[:to] : @metrics[:shards].size, resharding: @move))) if @options[:json]
        return say("the queue #{@name.inspect} has #{@metrics[:shards].size} shards") unless @move

        say("the queue #{@name.inspect} is given #{@move[:to]} shards instead of #{@move[:from]}") if @options[:status]
        say(progress)
      end

      # With --json there is one line, at the end.
      def say(text) = @options[:json] || puts(Log.printable(text))

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
    private_constant :ReshardCommand
  end
end
