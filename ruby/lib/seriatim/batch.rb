# frozen_string_literal: true

require "forwardable"

module Seriatim
  # What one call of perform is about. It reads as the Hash id => payloads, and takes the outcome of single ids; an id
  # without one shares the outcome of the call.
  class Batch
    extend Forwardable
    include Enumerable

    # One claimed id with its decoded payloads.
    # @api private
    Job = Struct.new(:place, :id, :fence, :retry_count, :perform_in, :error, :payloads, :scores, :contexts)

    # @return [Hash{String => Array}] each id's payloads, by score, then by arrival
    attr_reader :payloads_by_id
    alias to_h payloads_by_id
    alias to_hash payloads_by_id

    # @return [Module] the worker
    attr_reader :worker

    # @return [Integer] the shard of the queue that all ids lie in
    attr_reader :shard

    def_delegators :@payloads_by_id, :[], :fetch, :dig, :key?, :has_key?, :include?, :member?, :keys, :values,
                   :values_at, :size, :length, :empty?, :each_pair, :each_key, :each_value, :transform_values,
                   :select, :filter, :reject, :slice, :except, :any?, :==

    # @api private
    def initialize(worker, shard, jobs, &extend_time)
      @worker = worker
      @shard = shard
      @jobs = jobs.to_h { |job| [job.id, job] }
      @payloads_by_id = jobs.to_h { |job| [job.id, job.payloads] }
      @outcomes = {}
      @extend_time = extend_time
    end

    # Yields id and payloads.
    def each(&block)
      return to_enum(:each) { size } unless block

      @payloads_by_id.each(&block)
      self
    end

    alias ids keys

    # The id failed with this error (Exception or String), whatever becomes of the others.
    def fail(id, error)
      error = error.is_a?(Exception) ? error : error.to_s
      @outcomes[job(id).id] = error
      nil
    end

    # The id is done, even if the call fails.
    def done(id)
      @outcomes[job(id).id] = :done
      nil
    end

    # Lets every id of the batch run for so many more seconds from now, where the worker has a `ttr`.
    def extend(seconds)
      @extend_time&.call(Check.seconds("seconds", seconds, 0.0..31_536_000.0))
      nil
    end

    # @return [Integer] greater than that of every earlier claim of the id: for guarding writes elsewhere
    def fence(id) = job(id).fence

    # @return [Array<Float>] of the payloads, in their order
    def scores(id) = job(id).scores

    # @return [Integer] how often the id failed since it was last done, less one: -1 for a first run
    def retry_count(id) = job(id).retry_count

    # @return [Array<Hash{String => String}>] pushed with the payloads, in their order
    def contexts(id) = job(id).contexts

    # @return [String, nil] the id's last error
    def error(id) = job(id).error

    # @api private
    def outcome(id) = @outcomes[id]

    def inspect = "#<#{self.class} #{@payloads_by_id.inspect}>"

    private

    def job(id)
      text = Jobs.id_text(id) { |value| Check.refuse("id", "a String, Symbol or Integer", value) }
      @jobs.fetch(text) { raise Invalid, "the batch holds no id #{text.inspect}" }
    end
  end
end
