# frozen_string_literal: true

require "forwardable"

module Seriatim
  # What one call of perform is about. It reads as the Hash id => payloads, and takes the outcome of single ids; an id
  # without one shares the outcome of the call.
  class Batch
    extend Forwardable
    include Enumerable

    # @return [Hash{String => Array}] each id's payloads, by score, then by arrival
    attr_reader :payloads_by_id
    alias to_h payloads_by_id
    alias to_hash payloads_by_id

    # @return [Module] the worker
    attr_reader :worker

    # @return [Array<String>] all ids, whatever became of the Hash meanwhile
    attr_reader :ids

    # @return [Integer] the shard of the queue that all ids lie in
    def shard = @delivery.shard

    def_delegators :@payloads_by_id, :[], :fetch, :dig, :key?, :has_key?, :include?, :member?, :keys, :values,
                   :values_at, :size, :length, :empty?, :each_pair, :each_key, :each_value, :transform_values,
                   :select, :filter, :reject, :slice, :except, :any?, :==

    # @param places [Hash{String => Integer}, nil] of the ids in the delivery; nil: all are there, in this order
    # @api private
    def initialize(execution, worker, delivery, payloads_by_id, places)
      @execution = execution
      @worker = worker
      @delivery = delivery
      @payloads_by_id = payloads_by_id
      @ids = payloads_by_id.keys.freeze
      @places = places
    end

    # Yields id and payloads.
    def each(&block)
      return to_enum(:each) { size } unless block

      @payloads_by_id.each(&block)
      self
    end

    # The id failed with this error (Exception or String), whatever becomes of the others.
    def fail(id, error)
      report(id, error.is_a?(Exception) ? error : error.to_s)
    end

    # The id is done, even if the call fails.
    def done(id)
      report(id, :done)
    end

    # Lets every id of the batch run for so many more seconds from now, where the worker has a `ttr`.
    def extend(seconds)
      @execution.extend_time(Validate.seconds("seconds", seconds, 0.0..31_536_000.0))
      nil
    end

    # @return [Integer] greater than that of every earlier claim of the id: for guarding writes elsewhere
    def fence(id) = job(id)[1]

    # @return [Array<Float>] of the payloads, in their order
    def scores(id) = job(id)[5].map { |_bytes, score| score }

    # @return [Integer] how often the id failed since it was last done, less one: -1 for a first run
    def retry_count(id) = job(id)[2]

    # @return [Array<Hash{String => String}>] pushed with the payloads, in their order
    def contexts(id) = job(id)[5].map { |_bytes, _score, context| context ? Native.load(context) : {} }

    # @return [String, nil] the id's last error
    def error(id) = job(id)[4]

    # @api private
    def outcome(id) = @outcomes&.[](id)

    # Has any id an outcome of its own?
    # @api private
    def outcomes? = !@outcomes.nil?

    # @api private
    def places = @places ||= @ids.each_with_index.to_h

    def inspect = "#<#{self.class} #{@payloads_by_id.inspect}>"

    private

    def text(id) = Jobs.one_id_text(id)

    def known(id)
      text = text(id)
      places.key?(text) ? text : raise(Invalid, "the batch holds no id #{text.inspect}")
    end

    # As the core has it: id, fence, retry_count, perform_in, error, [[bytes, score, context]].
    def job(id)
      id = known(id)
      (@rows ||= {})[id] ||= @delivery.job(places.fetch(id))
    end

    def report(id, outcome)
      (@outcomes ||= {})[known(id)] = outcome
      nil
    end
  end
end
