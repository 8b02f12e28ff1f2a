# frozen_string_literal: true

require "seriatim/web/exchange"

module Seriatim
  class Web
    # The HTTP/1.1 server of `seriatim web`. One thread reads and writes all connections, so that slow ones cost nothing but
    # their place; a few others call the application. A connection serves requests one after another; when too many are
    # open, those that wait for a request give way. A consumer's pop that waits holds no thread and
    # no connection to Redis: it is asked again after the time that its last answer told.
    # @api private
    class StandAlone
      # By the kind of the request: changes may take long, and a Redis that does not answer holds up what reads.
      THREADS = { read: 4, change: 2, consume: 4, livez: 1 }.freeze
      CONNECTIONS = 256
      STOP_SECONDS = 5
      private_constant :THREADS, :CONNECTIONS, :STOP_SECONDS

      # @param listener [TCPServer, UNIXServer]
      # @param app [#call] of Rack
      # @param polls [Integer] how many pops may wait at once
      # @param connections [Integer] how many others may be open at once
      def initialize(listener, app, polls = 0, connections: CONNECTIONS)
        @listener = listener
        @app = app
        @polls = polls
        @most = connections + polls
        @exchanges = []
        @polling = {}.compare_by_identity # those of them whose pop waits, each with the time when it asks again; nil: it is asking
        @asked = THREADS.transform_values { Thread::Queue.new }
        @answered = Thread::Queue.new
        @awake, @waker = IO.pipe
      end

      # @return [self]
      def start
        @workers = THREADS.flat_map { |kind, count| Array.new(count) { Thread.new { work(@asked.fetch(kind)) } } }
        @thread = Thread.new { run }
        self
      end

      # @return [Boolean]
      def running? = @thread.alive?

      # Accepts no more, and finishes what is under way, within a few seconds.
      def stop
        @stop_at = monotonic + STOP_SECONDS
        wake
        @thread.join
        @workers.each(&:kill).each(&:join)
      end

      private

      # ---- the thread of all connections

      def run
        Thread.current.name = "seriatim web"
        turn until ended?
      ensure
        [@listener, *@exchanges].each(&:close)
      end

      def ended?
        return false unless @stop_at

        @listener.close
        @exchanges.none? { |exchange| %i[working writing].include?(exchange.state) } || monotonic > @stop_at
      end

      def turn
        readers = @exchanges.select { |exchange| %i[reading lingering].include?(exchange.state) }
        writers = @exchanges.select { |exchange| exchange.state == :writing }
        sources = [@awake, (@listener unless @listener.closed? || full?), *readers].compact
        readable, writable = IO.select(sources, writers, nil, patience)
        (readable || []).each { |source| read(source) }
        (writable || []).each { |exchange| exchange.writable(monotonic) }
        hand_over
        ask_again
        forget
      end

      def patience
        return 60 if @exchanges.empty? && !@stop_at

        soonest = @polling.each_value.reject(&:nil?).min
        soonest ? (soonest - monotonic).clamp(0, 0.25) : 0.25
      end

      def read(source)
        case source
        when @awake then @awake.read_nonblock(64, exception: false)
        when @listener then accept
        else take(source)
        end
      end

      def take(exchange)
        exchange.readable(monotonic)
        return unless exchange.state == :working

        exchange.env["seriatim.waiting"] = [1, 0] if exchange.env["REQUEST_METHOD"] == "POST"
        hand_on(exchange)
      end

      def hand_on(exchange) = @asked.fetch(Web.kind(exchange.env)) << exchange

      def hand_over
        until @answered.empty?
          exchange, response = @answered.pop
          response = let_wait(exchange, response) or next

          @polling.delete(exchange)
          exchange.answer(response, monotonic)
          exchange.writable(monotonic)
        end
      end

      # @return [Array, nil] the answer; nil: it is that of a pop for which nothing is due, and which waits. No pop waits for a server that stops.
      def let_wait(exchange, response)
        wait_ms = response[1]["seriatim.wait_ms"] or return response
        response[1].delete("seriatim.wait_ms")
        return response if @stop_at
        return Web.too_many_polls(@polls) unless @polling.key?(exchange) || @polling.size < @polls

        @polling[exchange] = monotonic + (wait_ms / 1000.0)
        nil
      end

      def ask_again
        now = monotonic
        @polling.each do |exchange, at|
          next unless at && (at <= now || @stop_at)

          @polling[exchange] = nil
          exchange.env["seriatim.waiting"] = [@polling.size, ((now - exchange.began) * 1000).to_i]
          hand_on(exchange)
        end
      end

      def forget
        now = monotonic
        @exchanges.each { |exchange| exchange.close if exchange.deadline < now }
        @exchanges.reject! { |exchange| exchange.state == :closed }
      end

      # Full of requests that are whole; else a new connection takes the place of the one that has been idle, or else slow, for longest.
      def full? = @exchanges.size >= @most && slowest.nil?

      def slowest = @exchanges.select { |exchange| exchange.state != :working }.min_by { |exchange| [exchange.idle? ? 0 : 1, exchange.deadline] }

      def accept
        io = @listener.accept_nonblock(exception: false)
        return if io == :wait_readable

        io.setsockopt(:TCP, :NODELAY, 1) if io.is_a?(TCPSocket)
        slowest&.close if @exchanges.size >= @most
        @exchanges.reject! { |exchange| exchange.state == :closed }
        @exchanges << Exchange.new(io, monotonic)
      rescue SystemCallError
        sleep 0.01 # no descriptor left, or a client that went away
      end

      # ---- the threads of the application

      def work(asked)
        while (exchange = asked.pop)
          @answered << [exchange, @app.call(exchange.env)]
          wake
        end
      end

      def wake = @waker.write_nonblock(".", exception: false)

      def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
