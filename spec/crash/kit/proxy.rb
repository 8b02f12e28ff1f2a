# frozen_string_literal: true

require "digest/sha1" # by name: finding it when it is used is no work for several threads
require "fileutils"
require "socket"
require "tmpdir"
require_relative "resp"

# A proxy in front of Redis' Unix socket that does what networks do, at an exact byte, and what machines do, at an exact script.
#
#   proxy = Proxy.new(redis.socket)                  # listens on a Unix socket of its own
#   proxy = Proxy.new(redis.socket, tcp: true)       # on 127.0.0.1 and a port of its own
#   proxy.url, proxy.socket, proxy.port              # what a client is given
#   proxy.rule = Proxy::Rule.new(segment: 1)         # of each connection that comes from now on
#   proxy.rule = ->(connection) { ... or nil }       # one for each; connection.pid is the peer's (Unix only), connection.number counts from 1
#   proxy.cut_next(up: 17)                           # once: after 17 more bytes of all connections together, that connection ends
#   proxy.cut?                                       # has it been cut?
#   proxy.drop                                       # ends all connections now; drop(reset: true) with a TCP reset
#   proxy.stall / proxy.flow                         # nothing passes; everything passes again
#   proxy.swallow                                    # what comes from now on over the connections that are open vanishes
#   proxy.hold_back(down: 16)                        # what comes from now on over them is 16 s late
#   proxy.newest, proxy.oldest                       # numbers of connections that are open, nil when there are none
#   proxy.passed                                     # {up: bytes, down: bytes} so far
#   proxy.steps                                      # what was done to peers: [Step::Done(pid, script, moment, number of the run)]
#   proxy.stop
#
# "up" is from the client to Redis, "down" is the way back. Fields of a rule, all optional:
#
#   cut: {up: n} or {down: n}      n bytes pass, then the connection ends (reset: true: with a TCP reset)
#   swallow: {up: n} or {down: n}  n bytes pass, what comes after vanishes and the connection stays open
#   delay: {up: s, down: s}        each part is held back for s seconds
#   segment: n                     n bytes at a time
#   answer: ->(name) { "-BUSY ...\r\n" or nil }  answers in Redis' stead, which never sees it; name is a script's or a command's
#   step: Proxy::Step.new(script: "claim", moment: :sent, nth: 3, signal: :KILL, only: ->(request) { ... })
#
# A step sends the signal to the peer, once, when the nth request (or one after it) of that script (a name of core/scripts), of those
# for which `only` is true
#   moment :before    has come, and Redis has not seen it; it never will if the signal is KILL, else it passes then
#          :sent      was carried out by Redis, and the peer has not seen the answer
#          :answered  and its answer was delivered
#          :message   none: the nth message to the peer that a push has claimed a job for it has come, and is not delivered, whatever
#                     the signal is
# Scripts are known by the SHA-1 of their texts in core/src/wire/scripts.inc, or in `scripts:`, the path of another one; nil stands for
# every other script.
class Proxy
  Rule = Struct.new(:cut, :swallow, :delay, :segment, :reset, :step, :answer, keyword_init: true) do
    def at(field) = self[field] || {}
  end
  Step = Struct.new(:script, :moment, :nth, :signal, :only, keyword_init: true) do
    def initialize(script:, moment:, nth: 1, signal: :KILL, only: nil) = super
  end
  Done = Struct.new(:pid, :script, :moment, :time)
  SCRIPTS = File.expand_path("../../../core/src/wire/scripts.inc", __dir__)
  READ = 65_536
  SEGMENTS = 200 # bytes of one connection before the others have their turn, where a rule says how large the pieces are

  # The bytes of one direction.
  class Stream
    attr_reader :name, :from, :to, :passed
    attr_accessor :open

    def initialize(name, from, to)
      @name = name
      @from = from
      @to = to
      @parts = [] # [when they may pass, bytes]
      @passed = 0
      @open = true
    end

    def add(bytes, delay)
      @parts << [Proxy.now + delay, bytes] unless bytes.empty?
    end

    def waits? = !@parts.empty?
    def due = @parts.first&.first
    def ready?(now) = waits? && due <= now

    def lose = @parts.clear

    # Writes what may pass, at most so many bytes. @return [Integer] how many were taken
    def write(limit)
      bytes = @parts.first.last
      size = @to.write_nonblock(limit < bytes.bytesize ? bytes.byteslice(0, limit) : bytes, exception: false)
      return 0 if size == :wait_writable

      size == bytes.bytesize ? @parts.shift : @parts.first[1] = bytes.byteslice(size..)
      @passed += size
      size
    end
  end

  # A client, the connection to Redis made for it, and its rule.
  class Connection
    attr_reader :number, :client, :redis, :pid, :up, :down
    attr_accessor :rule, :watch

    def initialize(number, client, redis)
      @number = number
      @client = client
      @redis = redis
      @pid = client.getsockopt(:SOCKET, :PEERCRED).unpack("i").first if client.is_a?(UNIXSocket)
      @up = Stream.new(:up, client, redis)
      @down = Stream.new(:down, redis, client)
      @rule = Rule.new
    end

    def streams = [up, down]

    def close(reset: false)
      client.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii")) if reset && client.is_a?(TCPSocket)
      client.close
      redis.close
    end
  end

  # Which script a request asks for, or which command it is.
  class Names
    # @param path [String] of scripts.inc
    def initialize(path)
      @scripts = File.read(path).scan(/^    X\((\w+), "(\h{40})"\)/).to_h(&:reverse)
    end

    def of(request)
      command = request[/\A\*\d+\r\n\$\d+\r\n(\w+)/n, 1]&.upcase
      case command
      when "EVALSHA" then @scripts[request[/\$40\r\n(\h{40})/n, 1]]
      when "EVAL" then @scripts[Digest::SHA1.hexdigest(Resp.words(request)[1])]
      else command
      end
    end
  end

  # Answers some requests in Redis' stead, each at its turn.
  class Liar
    def initialize(answer, connection, names)
      @answer = answer
      @connection = connection
      @names = names
      @requests = Resp.new
      @answers = Resp.new
      @owed = [] # an answer of ours, or nil for one of Redis'
    end

    def up(bytes)
      passes = @requests.take(bytes).reject { |request| (@owed << @answer.call(@names.of(request))).last }
      @connection.down.add(own, 0)
      passes.join
    end

    def down(bytes)
      @answers.take(bytes).each_with_object(+"".b) do |answer, passes|
        @owed.shift
        passes << answer << own
      end
    end

    def delivered = nil

    private

    def own
      text = +"".b
      text << @owed.shift while @owed.first
      text
    end
  end

  # Watches the requests of a connection, and does its step.
  class Stepper
    def initialize(step, connection, names, done)
      @step = step
      @connection = connection
      @names = names
      @done = done
      @requests = Resp.new
      @answers = Resp.new
      @owed = []
      @seen = 0
    end

    # What of the bytes may pass; nil: the peer is dead.
    def up(bytes)
      @requests.take(bytes).each_with_object(+"".b) do |request, passes|
        aimed = aimed?(request)
        @owed << aimed
        return nil if aimed && @step.moment == :before && act

        passes << request
      end
    end

    def down(bytes)
      @answers.take(bytes).each_with_object(+"".b) do |answer, passes|
        if message?(answer)
          return nil if act

          next
        end
        aimed = @owed.shift && !unknown?(answer)
        return nil if aimed && @step.moment == :sent && act

        passes << answer
        @delivers ||= aimed && @step.moment == :answered
      end
    end

    # Everything so far was written. Is the peer dead?
    def delivered
      return unless @delivers

      @delivers = false
      act
    end

    private

    def aimed?(request)
      @step.moment != :message && !@acted && @names.of(request) == @step.script && (@step.only.nil? || @step.only.call(request)) && (@seen += 1) >= @step.nth
    end

    def message?(answer)
      @step.moment == :message && !@acted && answer.match?(/\A\*3\r\n\$7\r\nmessage\r\n.*\r\n=/mn) && (@seen += 1) >= @step.nth
    end

    # Redis did not know the script, so it will be asked again.
    def unknown?(answer) = answer.start_with?("-NOSCRIPT")

    # Is the peer dead now?
    def act
      @acted = true
      Process.kill(@step.signal, @connection.pid)
      @done << Done.new(@connection.pid, @step.script, @step.moment, Proxy.now)
      @step.signal.to_s == "KILL"
    rescue Errno::ESRCH
      true
    end
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  attr_reader :socket, :port, :steps, :passed
  attr_writer :rule

  def initialize(upstream, tcp: false, scripts: SCRIPTS)
    @upstream = upstream
    @names = Names.new(scripts)
    @folder = Dir.mktmpdir("seriatim-proxy")
    @socket = File.join(@folder, "s") unless tcp
    @listener = tcp ? TCPServer.new("127.0.0.1", 0) : UNIXServer.new(@socket)
    @listener.listen(1024)
    @port = @listener.addr[1] if tcp
    @connections = []
    @number = 0
    @steps = []
    @passed = { up: 0, down: 0 }
    @orders = Queue.new
    @waker, @poke = IO.pipe
    @thread = Thread.new { run }
  end

  def url = port ? "redis://127.0.0.1:#{port}" : "unix://#{socket}"

  # How many connections are open.
  def size = order { @connections.size }

  def pids = order { @connections.map(&:pid).uniq }

  def cut_next(after)
    order { @cut = after.to_a.first.dup }
  end

  def cut? = order { @cut.nil? }

  # Forgets a cut that did not come.
  def mend
    order { @cut = nil }
  end

  def swallow
    order do
      @connections.each { |c| c.rule = Rule.new(swallow: { up: c.up.passed, down: c.down.passed }) }
    end
  end

  def hold_back(delay)
    order { @connections.each { |c| c.rule = Rule.new(delay: delay) } }
  end

  def newest = order { @connections.map(&:number).max }
  def oldest = order { @connections.map(&:number).min }

  def drop(reset: false)
    order { @connections.dup.each { |connection| close(connection, reset: reset) } }
  end

  def stall
    order { @stalled = true }
  end

  def flow
    order { @stalled = false }
  end

  def stop
    order { @ending = true }
    @thread.join
    [@listener, @waker, @poke].each(&:close)
    FileUtils.rm_rf(@folder)
  end

  private

  # The block runs in the proxy's thread.
  def order(&block)
    answer = Queue.new
    @orders << [block, answer]
    @poke.write("!")
    answer.pop
  end

  def run
    Thread.current.report_on_exception = false
    Thread.current.abort_on_exception = true
    until @ending
      readable, = IO.select(sources, sinks, nil, timeout)
      take_orders if readable&.include?(@waker)
      accept if readable&.include?(@listener)
      @connections.dup.each { |connection| step(connection, readable || []) } unless @stalled
    end
    @connections.dup.each { |connection| close(connection) }
  end

  def sources
    open = @stalled ? [] : @connections.flat_map { |c| c.streams.select(&:open).map(&:from) }
    [@waker, @listener, *open]
  end

  def sinks
    now = Proxy.now
    @stalled ? [] : @connections.flat_map { |c| c.streams.select { |s| s.ready?(now) }.map(&:to) }
  end

  def timeout
    return if @stalled

    now = Proxy.now
    due = @connections.flat_map { |c| c.streams.filter_map(&:due) }.select { |at| at > now }.min
    due && (due - now)
  end

  def take_orders
    @waker.read_nonblock(4096)
    until @orders.empty?
      block, answer = @orders.pop
      answer << block.call
    end
  end

  def accept
    client = @listener.accept_nonblock(exception: false)
    return if client == :wait_readable

    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) if port
    connection = Connection.new(@number += 1, client, UNIXSocket.new(@upstream))
    give_rule(connection)
    @connections << connection
  rescue SystemCallError
    client&.close
  end

  def give_rule(connection)
    rule = @rule.respond_to?(:call) ? @rule.call(connection) : @rule
    connection.rule = rule || Rule.new
    connection.watch = Stepper.new(rule.step, connection, @names, @steps) if rule&.step
    connection.watch = Liar.new(rule.answer, connection, @names) if rule&.answer
  end

  def step(connection, readable)
    connection.streams.each do |stream|
      read(connection, stream) if readable.include?(stream.from) && stream.open
      write(connection, stream) unless stream.to.closed?
      return if connection.client.closed?
    end
  rescue SystemCallError, IOError
    close(connection)
  end

  def read(connection, stream)
    bytes = stream.from.read_nonblock(READ, exception: false)
    return if bytes == :wait_readable
    return ended(connection, stream) if bytes.nil?

    bytes = connection.watch.public_send(stream.name, bytes) if connection.watch
    return close(connection) if bytes.nil?

    stream.add(bytes, connection.rule.at(:delay).fetch(stream.name, 0))
  end

  # What came before the end still passes.
  def ended(connection, stream)
    stream.open = false
    close(connection) unless stream.waits?
  end

  def write(connection, stream)
    wrote = 0
    while stream.ready?(Proxy.now)
      limit = limit_of(connection, stream) or return close(connection, reset: connection.rule.reset)
      return stream.lose if limit == :swallow

      wrote += size = stream.write(limit)
      count(stream, size)
      break if size.zero? || (connection.rule.segment && wrote >= SEGMENTS)
    end
    after_write(connection, stream) if wrote.positive? || !stream.open
  end

  def after_write(connection, stream)
    return close(connection, reset: connection.rule.reset) if limit_of(connection, stream).nil?
    return if stream.waits?

    dead = stream.name == :down && connection.watch&.delivered
    close(connection) if dead || !stream.open
  end

  # How many bytes may pass now; nil: the connection is to be cut here.
  def limit_of(connection, stream)
    rule = connection.rule
    limit = [READ, rule.segment.is_a?(Integer) ? rule.segment : READ].min
    [rule.at(:cut)[stream.name]&.-(stream.passed), @cut && @cut[0] == stream.name ? @cut[1] : nil].compact.each do |left|
      return nil if left <= 0

      limit = [limit, left].min
    end
    swallowed = rule.at(:swallow)[stream.name] or return limit
    swallowed <= stream.passed ? :swallow : [limit, swallowed - stream.passed].min
  end

  def count(stream, size)
    @passed[stream.name] += size
    @cut[1] -= size if @cut && @cut[0] == stream.name
  end

  def close(connection, reset: false)
    @cut = nil if @cut && @cut[1] <= 0
    @connections.delete(connection)
    connection.close(reset: reset)
  end
end
