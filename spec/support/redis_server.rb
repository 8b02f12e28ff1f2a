# frozen_string_literal: true

# Starts the redis-servers and sentinels of every Ruby program that tests or measures: ruby/spec, spec/ and bench.

require "fileutils"
require "socket"
require "tmpdir"

# Reads and writes the protocol of Redis, a command at a time.
module RedisProtocol
  module_function

  # @param words [Array<#to_s>] a command and its arguments
  # @return [String, Array, nil] its reply, integers as text; an error reply is raised
  def call(io, *words)
    io.write(command(*words))
    read(io)
  end

  # @return [String] a command as it is written
  def command(*words) = "*#{words.size}\r\n#{words.map { |word| "$#{word.to_s.bytesize}\r\n#{word.to_s.b}\r\n" }.join}"

  def read(io)
    line = io.gets("\r\n").chomp
    case line[0]
    when "+", ":" then line[1..]
    when "-" then raise line[1..]
    when "$" then line == "$-1" ? nil : io.read(line[1..].to_i + 2)[0...-2]
    when "*" then Array.new([line[1..].to_i, 0].max) { read(io) }
    end
  end
end

# A private redis-server on a Unix socket in a temporary folder. The process is stopped by its pid.
class RedisServer
  attr_reader :folder, :pid

  # A port below those that the system gives to outgoing connections, so that no connection takes it before its server does.
  def self.free_port
    port = rand(12_000..31_999)
    TCPServer.open("127.0.0.1", port) { port }
  rescue Errno::EADDRINUSE
    retry
  end

  # @param arguments [Array<String>] options of redis-server, which override those of `start`
  def initialize(*arguments)
    @folder = Dir.mktmpdir("seriatim-spec")
    @owner = Process.pid
    @arguments = arguments
    start
  end

  # Returns when it answers, which it does not while it loads its file.
  def start
    program = %w[redis-server valkey-server].find { |name| system("command -v #{name} >/dev/null") } or raise "no redis-server"
    @pid = Process.spawn(environment, program, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "yes",
                         "--appendfsync", "no", "--maxmemory-policy", "noeviction", *@arguments,
                         out: File.join(folder, "log"), err: %i[child out])
    wait_until_ready
  end

  def url = "unix://#{socket}"
  def socket = File.join(folder, "s")

  # Does nothing in a forked child, whose parent owns the process.
  def stop(signal = :TERM)
    return if @pid.nil? || @owner != Process.pid

    Process.kill(signal, @pid)
    Process.wait(@pid)
    @pid = nil
  end

  # Ends it by a signal and starts it with the data that it wrote.
  def restart(signal)
    stop(signal)
    start
  end

  # Ends it and removes its folder.
  def remove
    return unless @owner == Process.pid

    stop
    FileUtils.rm_rf(folder)
  end

  # Sends one command over a new connection; see RedisProtocol.call.
  def call(*words) = UNIXSocket.open(socket) { |io| RedisProtocol.call(io, *words) }

  def flush = call("FLUSHALL")

  private

  # redis-server runs without the sanitizers that LD_PRELOAD gives to the extension.
  def environment = { "LD_PRELOAD" => nil }

  # Waits 60 s, and as long as it loads its file, unless it ends.
  def wait_until_ready
    clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
    deadline = clock.call + 60
    until clock.call > deadline
      answer = ping
      return if answer == "PONG"
      break @pid = nil if Process.wait(@pid, Process::WNOHANG)

      deadline = clock.call + 60 if answer == "LOADING"
      sleep 0.02
    end
    raise "redis-server does not answer: #{File.read(File.join(folder, "log"))}"
  end

  # "PONG", "LOADING", or nil where it does not listen yet.
  def ping
    call("PING")
  rescue SystemCallError
    nil
  rescue RuntimeError => e
    e.message.start_with?("LOADING") ? "LOADING" : raise
  end
end

# A Redis that another process started, by the folder of its socket.
class RedisElsewhere
  attr_reader :url

  def initialize(folder, url)
    @folder = folder
    @url = url
  end

  def call(*words) = UNIXSocket.open(File.join(@folder, "s")) { |io| RedisProtocol.call(io, *words) }
  def flush = call("FLUSHALL")
  def remove; end
end

# A sentinel on a port of loopback that watches one master.
class RedisSentinel
  attr_reader :port

  # @param folder [String] where its configuration and its log lie; the caller removes it
  # @param name [String] of the master
  # @param master_port [Integer]
  # @param quorum [Integer] how many sentinels must agree that the master is down
  # @param options [Hash{String=>Object}] further settings of the master, as "down-after-milliseconds"
  def initialize(folder, name, master_port, quorum: 1, port: RedisServer.free_port, **options)
    @port = port
    file = File.join(folder, "sentinel-#{port}.conf")
    File.write(file, ["port #{port}", "bind 127.0.0.1", "dir #{folder}", "sentinel monitor #{name} 127.0.0.1 #{master_port} #{quorum}",
                      *options.map { |option, value| "sentinel #{option} #{name} #{value}" }].join("\n"))
    @pid = Process.spawn({ "LD_PRELOAD" => nil }, "redis-server", file, "--sentinel", out: "#{file}.log", err: %i[child out])
  end

  # @return [String] the reply to a command, lists as one text; empty while it cannot be reached
  def ask(*words)
    TCPSocket.open("127.0.0.1", port) { |io| RedisProtocol.call(io, *words).to_s }
  rescue SystemCallError
    ""
  end

  def kill
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
  end
end
