# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"

# A redis-server of the tests' own, on a Unix socket in a folder of its own, stopped by its pid.
class RedisServer
  attr_reader :folder, :pid

  # Below those that the system gives to outgoing connections, so that none of these takes it before its server does.
  def self.free_port
    port = rand(12_000..31_999)
    TCPServer.open("127.0.0.1", port) { port }
  rescue Errno::EADDRINUSE
    retry
  end

  # @param arguments [Array<String>] of redis-server
  def initialize(*arguments)
    @folder = Dir.mktmpdir("seriatim-spec")
    @owner = Process.pid
    @arguments = arguments
    start
  end

  def start
    program = %w[redis-server valkey-server].find { |name| system("command -v #{name} >/dev/null") } or raise "no redis-server"
    @pid = Process.spawn(environment, program, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "yes",
                         "--appendfsync", "no", "--maxmemory-policy", "noeviction", *@arguments,
                         out: File.join(folder, "log"), err: %i[child out])
    wait_until_ready
  end

  def url = "unix://#{socket}"
  def socket = File.join(folder, "s")

  def stop(signal = :TERM)
    return if @pid.nil? || @owner != Process.pid

    Process.kill(signal, @pid)
    Process.wait(@pid)
    @pid = nil
  end

  def remove
    return unless @owner == Process.pid

    stop
    FileUtils.rm_rf(folder)
  end

  # One command, its words as Redis takes them.
  def call(*words)
    UNIXSocket.open(socket) do |io|
      io.write("*#{words.size}\r\n", *words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" })
      read(io)
    end
  end

  def flush
    call("FLUSHALL")
  end

  private

  # The sanitizers of the extension are not Redis' business.
  def environment = { "LD_PRELOAD" => nil }

  def wait_until_ready
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    until Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      return if answers?
      sleep 0.02
    end
    raise "redis-server does not answer: #{File.read(File.join(folder, "log"))}"
  end

  # Not while it loads its file.
  def answers?
    call("PING") == "PONG"
  rescue SystemCallError
    false
  rescue RuntimeError => e
    e.message.start_with?("LOADING") ? false : raise
  end

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
