# frozen_string_literal: true

module Seriatim
  # Runs one delivery, and those that may follow it at once. This is the error boundary: whatever way user code takes to
  # leave, an exception of any class, throw, exit or the end of its own thread, every id gets an outcome and the delivery
  # is settled.
  # @api private
  class Execution
    DIED = "worker died"

    class << self
      # What is around each call of retries_exhausted: gets the worker, rows as of #rows, and a block. Rails sets it: process-wide state.
      # @return [#call, nil]
      attr_accessor :around_exhausted
    end

    # @return [Native::Delivery, Symbol, nil] as Host#take, where call was true
    attr_reader :next_delivery

    # @param host [Host] whose thread this is
    def initialize(host, delivery)
      @host = host
      @server = host.server
      @delivery = delivery
    end

    # Asynchronous interrupts must be masked; only user code runs without the mask.
    # @return [Boolean] the runner was asked for more, and `next_delivery` is its answer
    def call
      payloads_by_id = fast_path_payloads
      followed = payloads_by_id ? attempt { run_fast_path(payloads_by_id) } : run_full_path
    ensure
      settle unless followed
    end

    # @api private
    def extend_time(seconds)
      @batch.ids.each { |id| @host.runner.extend_time(@delivery, place_of(id), seconds) }
    end

    # @api private
    def checkpoint(place, count)
      @host.runner.checkpoint(@delivery, place, count)
      (@checkpointed ||= {})[place] = true if count.positive?
    end

    # @api private
    def flush = @host.runner.flush(@delivery)

    private

    # ---- the fast path: nothing but perform is called

    # @return [Hash, nil] the payloads, if perform takes only them and no middleware, codec or debug log needs more; nil: the full path
    def fast_path_payloads
      @ref = @server.worker(@delivery.worker)
      @worker = @ref.module
      return if @host.scheduled? || @ref.reload || @worker.takes_batch? || !Seriatim.server_middlewares.empty? || Log.debug?

      @delivery.payloads_by_id if @worker.payload_codec.equal?(Codec::JSON)
    end

    # Many deliveries without the mask between them: each takes the place of the one before in @delivery, so that whatever
    # ends this finds there what was begun, or nothing.
    def run_fast_path(payloads_by_id)
      while payloads_by_id
        @worker.perform(payloads_by_id)
        @next_delivery = @host.advance(@delivery)
        payloads_by_id = @next_delivery.equal?(@delivery) ? fast_path_payloads : nil
      end
    end

    # ---- the full path, of one delivery

    def run_full_path
      case @delivery.kind
      when :run then run
      when :died then died
      when :exhausted then exhausted
      end
      false
    end

    def run
      codec = @worker.payload_codec
      payloads = @delivery.payloads_by_id if codec.equal?(Codec::JSON)
      payloads ||= decoded(codec)
      return if payloads.empty?

      @batch = Batch.new(self, @worker, @delivery, payloads, @places)

      @debug = Log.debug?
      log("start", @batch.size)
      attempt { perform }
    end

    # Calls the block without the mask.
    # @return [Boolean] it came to its end
    def attempt(&code)
      finished = false
      begin
        unmasked(&code)
        finished = true
      rescue Exception => e # rubocop:disable Lint/RescueException
        raise if @server.forked? || !@delivery.held?
      ensure
        attempted(e || (ThreadEnded.new unless finished)) if @batch || !finished
      end
      finished
    end

    # A child that the job forked has no outcome to give, and what was ended with the server is handed back.
    def attempted(error)
      return if @server.forked? || !@delivery.held? || (error.is_a?(ThreadEnded) && @server.leaving?)

      error || @batch.outcomes? || @places ? conclude(error) : @delivery.done_all
      log("done", @batch.size) unless error
    end

    def perform
      chain = Seriatim.server_middlewares
      return call_worker if chain.empty?

      Middlewares.call("server_middlewares", chain, @worker, @batch) { call_worker }
    end

    def call_worker
      worker = @ref.current
      worker.takes_batch? ? worker.perform(@batch.payloads_by_id, @batch) : worker.perform(@batch.payloads_by_id)
    end

    # The ids whose payloads can all be read. Of the others the unreadable payloads go to the morgue.
    def decoded(codec)
      @places = {}
      rows.each_with_index.with_object({}) do |(row, place), payloads_by_id|
        values = decode(codec, row, place) or next
        payloads_by_id[row[0]] = values
        @places[row[0]] = place
      end
    end

    def decode(codec, row, place)
      broken = {}
      values = row[5].each_with_index.map { |(bytes, _score, _context), at| read(codec, bytes) { |error| broken[at] = error } }
      values if broken.empty?
    ensure
      reject(row[0], place, broken) unless broken.empty? # also where the codec ended this very thread
    end

    # Yields why it cannot be read.
    def read(codec, bytes)
      error = ThreadEnded.new("the codec ended its thread")
      value = unmasked { codec.load(bytes) }
      error = nil
      value
    rescue Exception => e # rubocop:disable Lint/RescueException
      error = e
      nil
    ensure
      yield error if error
    end

    def reject(id, place, broken)
      reason = "undecodable payload: #{Log.describe(broken.values.first)}"
      begin
        stored = stored_error(reason)
      ensure
        @delivery.reject(place, broken.keys, stored || reason) # also where dump_error ended this very thread
      end
      log_failure(place, "#{broken.size} payloads cannot be read: #{reason}", id: id)
    end

    # What the core has of every id: id, fence, retry_count, perform_in, error, [[bytes, score, context]].
    def rows = @rows ||= Array.new(@delivery.size) { |place| @delivery.job(place) }

    # In a row: behind a checkpoint what is left counts as never failed.
    def failures_before(place) = @checkpointed&.key?(place) ? 0 : rows[place][2] + 1

    def place_of(id) = (@places ||= rows.each_with_index.to_h { |row, place| [row[0], place] }).fetch(id)

    # ---- outcomes

    def conclude(error)
      @left = @batch ? @batch.ids.dup : rows.map(&:first)
      until @left.empty?
        id = @left.first
        outcome = @batch&.outcome(id) || error || :done
        isolate(place_of(id)) { settle_id(place_of(id), outcome) }
        @left.shift
      end
    ensure
      fail_rest(ThreadEnded.new.message)
    end

    def settle_id(place, outcome)
      case outcome
      when :done then @delivery.done(place)
      when Snooze then @delivery.snooze(place, outcome.seconds, outcome.payload)
      else fail_id(place, outcome, @delivery.elapsed)
      end
    end

    # What the block raises is a failure of this id alone; without an outcome the core would hand it out again at once.
    def isolate(place)
      yield
    rescue Exception => e # rubocop:disable Lint/RescueException
      fail_plainly(place, e)
    end

    # As fail_id, without the worker's hooks.
    def fail_plainly(place, error)
      count = failures_before(place)
      @delivery.fail(place, stored_error(Log.describe(error)), backoff(count))
      log_failure(place, error, id: rows[place][0], n: count)
    end

    # Fails the ids that have no outcome yet: there are some only where a hook ended this very thread. dump_error may end it again.
    def fail_rest(text)
      stored = stored_error(text) unless @left.empty?
    ensure
      @left.each { |id| @delivery.fail(place_of(id), stored || text, backoff(failures_before(place_of(id)))) }
      @left = []
    end

    def fail_id(place, error, elapsed = nil)
      count = failures_before(place)
      @delivery.fail(place, error_text(error), retry_in(count))
      tell_failure(place, error, count)
      log_failure(place, error, id: rows[place][0], n: count, elapsed: elapsed)
    end

    def tell_failure(place, error, count)
      return unless Notifications.notifier

      hook("fail.seriatim", nil) do
        Notifications.instrument("fail", { worker: @worker, queue: @worker.queue_name, id: rows[place][0], retry_count: count, error: error }) { nil }
      end
    end

    # One line each, which says whether it was the last one; of many in a second only their count, which the runner tells.
    def log_failure(place, error, **fields)
      event = failure_event(place) or return
      Log.write(event == "fail" ? Logger::WARN : Logger::ERROR, event, Log.brief(error), q: @worker.queue_name, **fields)
    end

    def failure_event(place)
      @host.runner.failure(@delivery, place)
    rescue Closed
      "fail"
    end

    def log(event, count)
      Log.debug(event, nil, q: @worker.queue_name, id: @batch.ids.first, n: count, elapsed: @delivery.elapsed) if @debug
    end

    def error_text(error) = StoredError.of(error, @worker.queue_name, caught: Exception)

    def stored_error(text) = StoredError.dumped(text, @worker.queue_name, caught: Exception)

    # Seconds; the default formula where the worker's own gives none.
    def retry_in(count)
      hook("retry_in", nil) { seconds(@worker.retry_in(count)) } || backoff(count)
    end

    def seconds(value) = Validate.number?(value) ? value.to_f : raise(Invalid, "no number of seconds: #{Validate.describe(value)}")

    def backoff(count) = Native.back_off(count)

    # User code whose failure must not be more than a line in the log.
    def hook(name, fallback, &code)
      unmasked(&code)
    rescue Exception => e # rubocop:disable Lint/RescueException
      Log.error("hook", "#{name} raised #{Log.describe(e)}", q: @worker.queue_name)
      fallback
    end

    # ---- what is not run

    def died
      @left = rows.map(&:first)
      until @left.empty?
        isolate(place_of(@left.first)) { fail_id(place_of(@left.first), DIED) }
        @left.shift
      end
    ensure
      fail_rest(DIED)
    end

    def exhausted
      around = Execution.around_exhausted
      tell = -> { @ref.current.retries_exhausted(rows.map { |row| exhausted_job(row) }) }
      hook("retries_exhausted", nil) { around ? around.call(@worker, rows, &tell) : tell.call }
    end

    def exhausted_job(row)
      id, _fence, _retry, _due, error, payloads, count = row
      codec = @worker.payload_codec
      { id: id, payloads: payloads.map { |bytes, score| [hook("load_payload", bytes) { codec.load(bytes) }, score] },
        payloads_count: count,
        error: hook("load_error", error) { error && Seriatim.load_error.call(error) } }
    end

    # ---- the end

    def settle
      @host.runner.settle(@delivery) if @delivery.held?
    rescue Closed
      nil # the server gave up waiting: what ran has been handed back
    end

    def unmasked(&code) = Thread.handle_interrupt(Interrupts::UNMASKED, &code)
  end
  private_constant :Execution
end
