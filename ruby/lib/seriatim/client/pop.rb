# frozen_string_literal: true

module Seriatim
  # Seriatim.pop: takes single ids, without a server.
  module Pull
    # Takes the first id that is due: all shards of the first queue go before the second.
    # @param queues [String, Symbol, Worker, Array] one queue or up to 1000; a Worker stands for its queue
    # @param wait [Numeric] seconds to wait if no id is due, 0 to 60
    # @param ttr [Numeric] seconds until the id comes again, to whoever asks next, unless it is acknowledged: 0.001 to 31,536,000. That counts as
    #   a failure. 0: the id is taken and ended at once, and is lost if this process dies
    # @param max [Integer] the most payloads of a delivery, 1 to 1000; it also ends at 1 MiB. The others come when these have ended
    # @param weights [Hash, nil] of each queue that is named, 1 to 1,000,000: the queues take turns by them, and an empty one loses its turn
    # @return [Delivery, nil] nil: no id was due, or the wait ended after 100 deliveries of which nothing could be read
    # @raise [Invalid] before anything is sent, naming the argument
    # @raise [Error] when Redis cannot be reached or refuses
    def pop(queues, wait: 2, ttr: 30, max: 1000, weights: nil)
      Pop.new(queues, wait, ttr, max, weights).call
    end

    # The delivery that has this token, in any process: to report its result. It has no payloads here, `deliveries` is 0, `retry_count` -1
    # and `more` false, because the token says only queue, id and fence. Redis is not asked.
    # @param token [String] of {Delivery#token}
    # @return [Delivery]
    # @raise [Invalid]
    def delivery(token)
      Validate.refuse("token", "a String", token) unless token.is_a?(String)
      queue, id, fence, count = Native.token_parts(token)
      raise Invalid, "token: the text is no token of a delivery" unless queue

      source = Pop.source(queue, "token")
      Delivery.new(source.name, source.codec, Delivery::Head.new(id, fence, 0, token, -1, nil, false, count), [], [])
    end
  end
  private_constant :Pull

  # One call of Seriatim.pop.
  # @api private
  class Pop
    # A queue that is asked: its name, its settings as {Connection#number} takes them, its codec.
    Source = Struct.new(:name, :settings, :codec)
    NAME_BYTES = Native.worker_settings.find { |setting| setting[:name] == :queue_name }.fetch(:range)
    REJECTED = 250 # payloads that the core takes in one call
    UNREADABLE = 100 # deliveries: after as many of which nothing can be given, a pop whose wait is over ends
    private_constant :Source, :NAME_BYTES, :REJECTED, :UNREADABLE

    # The settings of a queue without a worker in this process: as Redis has them. The same object each time, by which a connection knows
    # that it has them already.
    def self.settings_of(name) = (@settings ||= {})[name] ||= { queue_name: name, shards_count: 0 }.freeze

    def self.source(queue, field)
      return Source.new(queue.queue_name, queue.queue_settings, queue.payload_codec) if queue.is_a?(Worker)

      known = queue.is_a?(String) || queue.is_a?(Symbol)
      Validate.refuse(field, "the name of a queue or a worker", queue) unless known
      name = Validate.text(field, queue, NAME_BYTES)
      worker = Worker.named(name)
      worker ? source(worker, field) : Source.new(name, settings_of(name), Codec.module_wide)
    end

    def initialize(queues, wait, ttr, max, weights)
      @sources = sources(queues.is_a?(Array) ? queues : [queues])
      @weights = checked_weights(weights) unless weights.nil?
      @wait = Validate.seconds("wait", wait, 0.0..60.0).to_f
      @ttr = Validate.time_to_run("ttr", ttr)
      Validate.refuse("ttr", "0 or a number of seconds from 0.001", ttr) if @ttr.positive? && @ttr < 0.001
      @max = Validate.integer("max", max, 1..1000)
    end

    # @return [Delivery, nil]
    def call
      deadline = monotonic + @wait
      (1..).each do |round|
        place, *row = ask([deadline - monotonic, 0.0].max)
        return unless place

        delivery = read(@sources[place], row)
        return delivery if delivery || (round >= UNREADABLE && monotonic >= deadline)
      end
    end

    private

    def sources(queues)
      Validate.refuse("queues", "1 to 1000 queues", queues) unless queues.size.between?(1, 1000)
      found = queues.each_with_index.map { |queue, at| Pop.source(queue, "queues[#{at}]") }
      refuse_twice("queues", found.map(&:name))
      found
    end

    def refuse_twice(field, names)
      twice = names.tally.find { |_name, count| count > 1 }
      raise Invalid, "#{field}: #{twice.first.inspect} is named twice" if twice
    end

    def checked_weights(weights)
      Validate.refuse("weights", "a Hash from queue to weight", weights) unless weights.is_a?(Hash)
      names = weights.keys.map { |queue| Pop.source(queue, "a queue of weights").name }
      refuse_twice("weights", names)
      given = names.zip(weights.values).to_h
      unasked = names - @sources.map(&:name)
      raise Invalid, "weights: #{unasked.first.inspect} is none of the queues" unless unasked.empty?

      @sources.map { |source| Validate.integer("weights[#{source.name.inspect}]", given[source.name], 1..1_000_000) }
    end

    def ask(wait)
      Pool.poppers.with { |connection| connection.pop(@sources.map(&:settings), @weights, wait, @ttr, @max) }
    end

    # @param row [Array] as Connection#pop gives it, without the place
    # @return [Delivery, nil] nil: payloads cannot be read; they are in the morgue, and the pop goes on
    def read(source, row)
      *head, rows = row
      values, broken = decoded(source.codec, rows)
      reject(source, row, broken) unless broken.empty?
      # With ttr: 0 there is no token, the delivery has ended, and what can be read of it would be lost.
      return if broken.any? && (row[3] || values.empty?)

      Delivery.new(source.name, source.codec, Delivery::Head.new(*head, rows.size), rows.values_at(*values.keys), values.values)
    end

    # What can be read, and the errors of the others, by their places.
    def decoded(codec, rows)
      broken = {}
      values = rows.each_with_index.with_object({}) do |((bytes), at), read|
        read[at] = codec.load(bytes)
      rescue StandardError, ScriptError, SystemStackError => e
        broken[at] = e
      end
      [values, broken]
    end

    # Without a token nothing is left in Redis that could be rejected.
    def reject(source, row, broken)
      id, _fence, _deliveries, token, *, rows = row
      reason = "undecodable payload: #{Log.describe(broken.values.first)}"
      Log.error("dead", "#{broken.size} payloads cannot be read: #{reason}", q: source.name, id: id)
      return unless token

      stamps = broken.keys.first(REJECTED).map { |at| rows[at][3] }
      Pool.current.with { |connection| connection.popped(token, :reject, 0.0, StoredError.dumped(reason, source.name), stamps) }
    rescue Stale
      nil # its time is over: somebody else pops it
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
  private_constant :Pop
end
