# frozen_string_literal: true

module Seriatim
  module Testing
    # A {Batch} for a test that calls perform itself. It remembers what perform reported.
    class FakeBatch < Batch
      FIRST_FENCE = 1
      private_constant :FIRST_FENCE

      # @api private
      def self.of(worker, payloads_by_id, retry_count:, error:, scores:, contexts:)
        scores = scores.transform_keys { |id| Jobs.one_id_text(id) }
        contexts = contexts.transform_keys { |id| Jobs.one_id_text(id) }
        rows = payloads_by_id.map do |id, payloads|
          name = Jobs.one_id_text(id)
          [name, FIRST_FENCE, retry_count, 0.0, error, payload_rows(worker, payloads, scores[name], contexts[name]), payloads.size]
        end
        new(worker, rows)
      end

      def self.payload_rows(worker, payloads, scores, contexts)
        payloads.each_with_index.map do |payload, at|
          context = contexts && contexts[at]
          [worker.payload_codec.dump(payload, "payload"), (scores && scores[at]) || at + 1.0, context && Native.dump(context, "context")]
        end
      end
      private_class_method :payload_rows

      # @return [Hash{String => Integer}] the largest count that perform gave to checkpoint, by id
      attr_reader :checkpoints

      # @return [Numeric, nil] the seconds of extend
      attr_reader :extended

      # @api private
      def initialize(worker, rows)
        payloads_by_id = rows.to_h { |id, *, payloads, _total| [id, payloads.map { |bytes, *| worker.payload_codec.load(bytes) }] }
        super(self, worker, Given.new(nil, :run, 0, rows), payloads_by_id, nil)
        @checkpoints = {}
      end

      # @return [Hash{String => Exception, String}] the errors given to fail, by id
      def failed = outcomes_of { |outcome| !outcome.is_a?(Snooze) && outcome != :done }

      # @return [Array<String>] the ids given to done
      def finished = outcomes_of { |outcome| outcome == :done }.keys

      # @return [Hash{String => Float}] the seconds given to snooze, by id
      def snoozed = outcomes_of { |outcome| outcome.is_a?(Snooze) }.transform_values(&:seconds)

      # Remembers the count, for {#checkpoints}.
      # @raise [Invalid] the id has fewer payloads in this batch
      def checkpoint(id, count)
        name = known(id)
        Validate.integer("count", count, 0..fetch(name).size)
        @checkpoints[name] = [count, @checkpoints.fetch(name, 0)].max
        nil
      end

      # Does nothing: there is no Redis that could confirm checkpoints.
      def flush = nil

      # @api private
      def extend_time(seconds) = @extended = seconds

      private

      def outcomes_of = ids.to_h { |id| [id, outcome(id)] }.compact.select { |_, outcome| yield outcome }
    end
  end
end
