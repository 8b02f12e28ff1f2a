# frozen_string_literal: true

module Seriatim
  # The connections of a process, made when they are needed. Process-wide state: one pool for pushes and queries, one for pops,
  # one for each kind of request to the dashboard, and one for each of its mounts with consumers; a child of fork makes its own.
  # @api private
  class Pool
    LOCK = Mutex.new
    WEB_SIZES = { read: 2, change: 2, consume: 4, livez: 2 }.freeze
    CONSUMER_PATIENCE = 60 # seconds: many consumers that ask at once wait for their turn, and none is refused
    private_constant :LOCK, :WEB_SIZES, :CONSUMER_PATIENCE

    class << self
      # The pool of this process: a child of fork gets a new one.
      def current
        pool = @current
        return pool if pool && pool.generation == Native.generation

        LOCK.synchronize do
          @current = nil unless @current&.generation == Native.generation
          @current ||= configured(Seriatim.client_pool_size)
        end
      end

      # That of pops. It has no limit: a pop that waits takes no connection from the pushes.
      def poppers
        pool = @poppers
        return pool if pool && pool.generation == Native.generation

        LOCK.synchronize do
          @poppers = nil unless @poppers&.generation == Native.generation
          @poppers ||= configured(Float::INFINITY, Seriatim.client_pool_size)
        end
      end

      # The dashboard's own: it takes no connection from the pushes, a change, which may take long, takes none from consumers or from
      # what reads, and nothing takes one from /livez, which is answered without Redis.
      # @param kind [Symbol] of a request: Web.kind
      def web(kind) = web_pool(kind) { configured(WEB_SIZES.fetch(kind), timeout: kind == :consume ? CONSUMER_PATIENCE : Seriatim.pool_timeout) }

      # Of one mount, for pops that wait.
      # @param mount [Web]
      def web_polls(mount, size) = web_pool(mount) { configured(size) }

      # The next use makes a new pool, by the settings of that time. Connections in use end with their use.
      def reset
        old = [@current, @poppers, *@web&.values]
        @current = @poppers = @web = nil
        old.each { |pool| pool&.discard }
      end

      private

      # The pool of a kind or a mount; the block makes it.
      def web_pool(key)
        LOCK.synchronize do
          @web ||= {}.compare_by_identity
          @web.delete(key) unless @web[key]&.generation == Native.generation
          @web[key] ||= yield
        end
      end

      def configured(size, kept = size, timeout: Seriatim.pool_timeout)
        url = RedisUrl.resolve
        url_from = RedisUrl.named_by
        namespace = Seriatim.namespace
        new(size, timeout, kept) { Connection.new(url, namespace, url_from) }
      end
    end

    attr_reader :generation

    # @param kept [Integer] how many connections stay open while nobody uses them
    def initialize(size, timeout, kept = size, &connect)
      @size = size
      @kept = kept
      @timeout = timeout
      @connect = connect
      @generation = Native.generation
      @lock = Mutex.new
      @returned = ConditionVariable.new
      @idle = []
      @made = 0
    end

    # Closes what is idle now, and the rest when it comes back. Calls that have begun with this pool, which may wait, end with it.
    def discard
      idle = @lock.synchronize do
        @discarded = true
        @made -= @idle.size
        @idle.slice!(0..)
      end
      idle.each(&:close)
    end

    # Lends a connection to the block. Whatever ends the block, the connection comes back; one that was waiting for
    # an answer has dropped its socket by then.
    # @param patience [Numeric] seconds to wait for a free one, at most pool_timeout
    # @raise [PoolTimeout]
    def with(patience = @timeout)
      Thread.handle_interrupt(Interrupts::MASKED) do
        connection = checkout([patience, @timeout].min)
        begin
          Thread.handle_interrupt(Interrupts::UNMASKED) { yield connection }
        ensure
          checkin(connection)
        end
      end
    end

    private

    # An idle connection, :new for the right to make one, or nothing.
    def take
      return @idle.pop unless @idle.empty?
      return if @made == @size

      @made += 1
      :new
    end

    def wait(patience)
      deadline = monotonic + patience
      until (found = take)
        left = deadline - monotonic
        raise PoolTimeout, "no free connection in #{patience.round(3)} s: all #{@size} are in use (client_pool_size)" unless left.positive?

        Thread.handle_interrupt(Interrupts::UNMASKED) { @returned.wait(@lock, left) }
      end
      found
    ensure
      @returned.signal unless found # a connection may have been meant for this thread, which does not take it
    end

    def checkout(patience)
      found = @lock.synchronize { take || wait(patience) }
      found == :new ? connect : found
    end

    def connect
      @connect.call
    rescue Exception
      forget
      raise
    end

    def checkin(connection)
      kept = @lock.synchronize { keep(connection) }
      connection.close unless kept
    end

    # @return [Boolean] false: enough others are open, or none is to be
    def keep(connection)
      @returned.signal
      return @idle.push(connection) && true if !@discarded && @idle.size < @kept

      @made -= 1
      false
    end

    def forget
      @lock.synchronize do
        @made -= 1
        @returned.signal
      end
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
