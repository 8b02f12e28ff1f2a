# frozen_string_literal: true

module Seriatim
  # An id that {Seriatim.pop} took, with its payloads. It is this consumer's until one of {#ack}, {#fail}, {#snooze} and {#release}
  # ends it, or until its time to run is over. Any thread may use it. A method that comes too late raises {Stale} and changes nothing.
  class Delivery
    NO_PAYLOAD = Object.new.freeze
    private_constant :NO_PAYLOAD

    # What a delivery says beside its payloads; error: as Redis has it; count: of its payloads.
    # @api private
    Head = Struct.new(:id, :fence, :deliveries, :token, :retry_count, :error, :more, :count)

    # @return [String]
    attr_reader :id

    # @return [String] the name of the queue
    attr_reader :queue

    # @return [Array] by score, then by arrival
    attr_reader :payloads

    # @return [Array<Float>] the score of each payload
    attr_reader :scores

    # @return [Array<Hash{String => String}>] the context of each payload; {} for one without
    attr_reader :contexts

    # @return [Integer] greater than that of every earlier run of the id. A store that remembers the greatest one can reject writes of an
    #   older run
    attr_reader :fence

    # @return [Integer] how often the id was popped, this time included, since it was last acknowledged, had a checkpoint or was buried
    attr_reader :deliveries

    # @return [String, nil] names this delivery to the HTTP interface and to other processes; nil: it was popped with `ttr: 0`
    attr_reader :token

    # @return [Integer] -1 if the id has not failed since it was last done; 0 after its first failure
    attr_reader :retry_count

    # @return [Boolean] does the id have more payloads than this delivery? A later delivery has them
    attr_reader :more

    # @param rows [Array] [[bytes, score, context, stamp]]
    # @param payloads [Array] what the bytes say
    # @api private
    def initialize(queue, codec, head, rows, payloads)
      @queue = queue
      @codec = codec
      @id, @fence, @deliveries, @token, @retry_count, @error, @more, @count = *head
      @payloads = payloads
      @scores = rows.map { |_bytes, score| score }
      @contexts = rows.map { |_bytes, _score, context| context ? Native.load(context) : {} }
    end

    # @return [String, nil] the error of the last failure, through load_error; nil: retry_count is -1
    def error = @error && StoredError.loaded(@error)

    # The payloads are done. Nothing happens if it was popped with `ttr: 0`, which ended it already.
    # @return [true]
    # @raise [Stale]
    def ack
      report(:ack) if @token
      true
    end

    # The run has failed: the id comes again, or its retries are used up.
    # @param error [Exception, String] stored with the id
    # @param retry_in [Numeric, nil] seconds until it comes again; nil: the default back-off
    # @raise [Stale]
    def fail(error, retry_in: nil)
      Validate.refuse("error", "an Exception or a String", error) unless error.is_a?(Exception) || error.is_a?(String)
      seconds = retry_in.nil? ? -1.0 : Validate.delay("retry_in", retry_in)
      must_run
      report(:fail, seconds, StoredError.of(error, @queue))
    end

    # Hands the id back, to come again after `seconds`. No failure is counted.
    # @param payload what the first payload that is left becomes, as perform_async takes it. Not given: it stays as it is
    # @raise [Invalid] the payload has more than 1 MiB as it is stored
    # @raise [Stale]
    def snooze(seconds, payload: NO_PAYLOAD)
      wait = Validate.delay("seconds", seconds)
      bytes = Validate.payload_bytes("payload", @codec.dump(payload, "payload")) unless payload.equal?(NO_PAYLOAD)
      report(:snooze, wait, bytes)
    end

    # Hands the id back, due as it was. No failure is counted.
    # @raise [Stale]
    def release = report(:release)

    # Moves the end of the time to run to `seconds` from now.
    # @param seconds [Numeric] 0 to 31,536,000
    # @raise [Stale]
    def extend(seconds) = report(:extend, Validate.time_to_run("seconds", seconds))

    # The first `count` payloads are done, whatever becomes of the others. A count that is not greater than an earlier one changes nothing.
    # @raise [Invalid] there are fewer
    # @raise [Stale]
    def checkpoint(count)
      Validate.integer("count", count, 0..@count)
      must_run
      report(:checkpoint, 0.0, nil, count) if count.positive?
    end

    def inspect = "#<#{self.class} queue=#{@queue.inspect} id=#{@id.inspect} fence=#{@fence} deliveries=#{@deliveries}>"

    private

    def report(kind, seconds = 0.0, text = nil, payloads = nil)
      must_run
      Pool.current.with { |connection| connection.popped(@token, kind, seconds, text, payloads) }
      nil
    end

    def must_run
      raise Invalid, "the delivery of #{@id.inspect} was popped with ttr: 0, so it has ended already" unless @token
    end
  end
end
