# frozen_string_literal: true

require "seriatim/web/exchange"

module Seriatim
  class Web
    # The HTTP/1.1 server of `seriatim web`. One thread reads and writes all connections, so that slow ones cost nothing but
    # their place; a few others call the application. A connection serves one request.
    # @api private
    class StandAlone
      THREADS = 4
      CHANGE_THREADS = 2 # of their own, so that changes, which may take long, hold up no page and no probe
      CONNECTIONS = 256
      STOP_SECONDS = 5
      private_constant :THREADS, :CHANGE_THREADS, :CONNECTIONS, :STOP_SECONDS

      # @param listener [TCPServer, UNIXServer]
      # @param app [#call] of Rack
      # @param polls [Integer] how many of its changes may wait long, beside those that CHANGE_THREADS serve
      def initialize(listener, app, polls = 0)
        @listener = listener
        @app = app
        @polls = polls
        @exchanges = []
        @asked = Thread::Queue.new
        @changes = Thread::Queue.new
        @answered = Thread::Queue.new
        @awake, @waker = IO.pipe
      end

      # @return [self]
      def start
        @workers = [*[@asked] * THREADS, *[@changes] * (CHANGE_THREADS + @polls)].map { |asked| Thread.new { work(asked) } }
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
        forget
      end

      def patience = @exchanges.empty? && !@stop_at ? 60 : 0.25

      def read(source)
        case source
        when @awake then @awake.read_nonblock(64, exception: false)
        when @listener then accept
        else take(source)
        end
      end

      def take(exchange)
        exchange.readable(monotonic)
        (exchange.env["REQUEST_METHOD"] == "POST" ? @changes : @asked) << exchange if exchange.state == :working
      end

      def hand_over
        until @answered.empty?
          exchange, response = @answered.pop
          exchange.answer(response, monotonic)
          exchange.writable(monotonic)
        end
      end

      def forget
        now = monotonic
        @exchanges.each { |exchange| exchange.close if exchange.deadline < now }
        @exchanges.reject! { |exchange| exchange.state == :closed }
      end

      # Full of requests that are whole; else a new connection takes the place of the one that has been slow for longest.
      def full? = @exchanges.size >= CONNECTIONS && slowest.nil?

      def slowest = @exchanges.select { |exchange| exchange.state != :working }.min_by(&:deadline)

      def accept
        io = @listener.accept_nonblock(exception: false)
        return if io == :wait_readable

        slowest&.close if @exchanges.size >= CONNECTIONS
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
