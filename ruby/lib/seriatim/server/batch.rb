# frozen_string_literal: true

require "forwardable"

module Seriatim
  # The outcome of an id that is to come again later: seconds, and the bytes of a payload or nil.
  Snooze = Struct.new(:seconds, :payload)
  private_constant :Snooze

  # The ids and payloads of one call of perform. It reads like the Hash id => payloads, and records the outcome of single ids;
  # an id without an outcome of its own shares that of the call: done if perform returns, failed if it raises.
  class Batch
    extend Forwardable
    include Enumerable

    # @return [Hash{String => Array}] each id's payloads, by score, then by arrival
    attr_reader :payloads_by_id
    alias to_h payloads_by_id
    alias to_hash payloads_by_id

    # @return [Module] the worker
    attr_reader :worker

    # @return [Array<String>] all ids, even if perform has changed payloads_by_id
    attr_reader :ids

    # @return [Integer] the shard of the queue that all ids lie in
    def shard = @delivery.shard

    def_delegators :@payloads_by_id, :[], :fetch, :dig, :key?, :has_key?, :include?, :member?, :keys, :values,
                   :values_at, :size, :length, :empty?, :each_pair, :each_key, :each_value, :transform_values,
                   :select, :filter, :reject, :slice, :except, :any?, :==, :to_s, :to_json

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

    # Records that the id failed. It does not end perform, and other ids are not affected.
    # @param id [String, Symbol, Integer] of this batch
    # @param error [Exception, String] stored with the id
    # @raise [Invalid] the batch does not hold the id
    def fail(id, error)
      report(id, error.is_a?(Exception) ? error : error.to_s)
    end

    # Records that the id is done, even if perform raises later.
    # @raise [Invalid] the batch does not hold the id
    def done(id)
      report(id, :done)
    end

    # The first `count` payloads of the id, in the order of the batch, are done, whatever becomes of the rest: a failure, a crash or a snooze
    # brings back only what is left, with retry_count -1. The id runs on. Sent at once and not waited for: until Redis has
    # confirmed it ({#flush} waits for that) a crash may bring these payloads again. A smaller count than before changes nothing. The last
    # payload needs no checkpoint: the end of the run is one.
    # @raise [Invalid] the id has fewer payloads in this batch
    def checkpoint(id, count)
      @execution.checkpoint(places.fetch(known(id)), Validate.integer("count", count, 0..2_147_483_647))
      nil
    end

    # Waits until Redis has confirmed all checkpoints of the batch.
    # @raise [Stale] the run of an id is another's now, or the end of a stop has handed it back: what it still does is on its own
    def flush
      @execution.flush
      nil
    end

    # The id has neither ended nor failed when the call ends: what is left of it waits for +seconds+, as after a failure, but
    # nothing is counted, and retry_count stays.
    # @param payload what the first payload that is left becomes, as perform_async takes it; it keeps its place in the order.
    #   Not given: it stays as it is
    # @raise [Invalid] the batch does not hold the id; the payload has more than 1 MiB as it is stored
    def snooze(id, seconds, **payload)
      unknown = payload.keys - [:payload]
      raise ArgumentError, "unknown keyword: #{unknown.first.inspect}" unless unknown.empty?

      bytes = Validate.payload_bytes("payload", @worker.payload_codec.dump(payload[:payload], "payload")) if payload.key?(:payload)
      report(id, Snooze.new(Validate.delay("seconds", seconds), bytes))
    end

    # Moves the end of the time to run of every id of the batch to `seconds` from now. No effect without the setting `ttr`.
    # @param seconds [Numeric] 0 to 31,536,000
    def extend(seconds)
      @execution.extend_time(Validate.time_to_run("seconds", seconds))
      nil
    end

    # @return [Integer] the fencing token: greater than that of every earlier claim of the id. A store that remembers the greatest
    #   one can reject writes of an older run
    def fence(id) = job(id)[1]

    # @return [Array<Float>] the score of each payload, in the order of the payloads
    def scores(id) = job(id)[5].map { |_bytes, score| score }

    # @return [Integer] number of retries so far: -1 in the first run, 0 in the first retry
    def retry_count(id) = job(id)[2]

    # @return [Array<Hash{String => String}>] the context of each payload, in the order of the payloads; {} for one without
    def contexts(id) = job(id)[5].map { |_bytes, _score, context| context ? Native.load(context) : {} }

    # @return [String, nil] the id's last error, through load_error
    def error(id)
      stored = job(id)[4]
      stored && StoredError.loaded(stored)
    end

    # @return [Array<String>] what the push of each payload answered with +handle: true+, in the order of the payloads
    # @api private
    def handles(id) = @delivery.handles(places.fetch(known(id)), @worker.queue_name)

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

    # @return [String] of {ids}; an id is its bytes, whatever the encoding
    def known(id)
      text = text(id)
      return text if places.key?(text)

      bytes = text.b
      @ids.find { |each| each.b == bytes } || raise(Invalid, "the batch holds no id #{text.inspect}")
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
