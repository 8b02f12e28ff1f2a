# frozen_string_literal: true

# The redis-server of a benchmark: spec/support/redis_server.rb on TCP, with the readings that the benchmarks need.

require_relative "../../spec/support/redis_server"

# A redis-server on a port of loopback, as most applications reach theirs. Nothing is written to disk unless a restart is to read it.
class MeasuredRedis < RedisServer
  attr_reader :port

  def initialize
    @port = RedisServer.free_port
    super("--bind", "127.0.0.1", "--port", @port.to_s, "--appendonly", "no", "--appendfsync", "everysec")
  end

  def url = "redis://127.0.0.1:#{port}"

  # Ends it by SIGKILL and starts it with what is in its folder: from the append-only file if `appendonly`, else from the snapshot.
  # @return [Float] the seconds until it answered
  def timed_restart(appendonly:)
    @arguments += ["--appendonly", appendonly ? "yes" : "no"]
    stop(:KILL)
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    start
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - before
  end

  # Writes a snapshot.
  def save = call("SAVE")

  # Begins an append-only file, and waits until it holds everything.
  def append_only
    call("CONFIG", "SET", "appendonly", "yes")
    sleep 0.05 until %w[aof_rewrite_in_progress aof_rewrite_scheduled].all? { |field| info(field) == "0" }
  end

  # Ends the append-only file.
  def append_nothing = call("CONFIG", "SET", "appendonly", "no")

  # @return [Integer] members of a sorted set, fields of a hash
  def zcard(key) = call("ZCARD", key).to_i
  def hlen(key) = call("HLEN", key).to_i

  def flush = call("FLUSHALL", "SYNC") && call("CONFIG", "RESETSTAT")
  def used_memory = info("used_memory").to_i
  def version = info("redis_version")
  def cpu_seconds = call("INFO", "cpu").scan(/^used_cpu_(?:user|sys):(\S+)/).sum { |(seconds)| seconds.to_f }

  # The number of commands since the last flush; those that scripts called are included.
  def calls = call("INFO", "commandstats").scan(/^cmdstat_(?!info|config|flushall)\S+?:calls=(\d+)/).sum { |(calls)| calls.to_i }

  # The slowest command since the last call of this method, in ms, and its words. 0 for less than 0.1 ms, and at the first call,
  # which begins to record them.
  # @return [Array(Float, Array<String>)]
  def slowest
    entries = call("SLOWLOG", "GET", "-1").reject { |_, _, _, words| %w[SLOWLOG CONFIG].include?(words.first) }
    call("CONFIG", "SET", "slowlog-max-len", "10000", "slowlog-log-slower-than", "100")
    call("SLOWLOG", "RESET")
    _, _, time, words = entries.max_by { |entry| entry[2].to_i }
    [time.to_i / 1000.0, words || []]
  end

  # The number of commands that clients sent in `seconds`; commands called by scripts are not counted.
  def commands_in(seconds)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("MONITOR\r\n")
      sleep seconds
      socket.read_nonblock(10_000_000).lines.count { |line| line.match?(/\A\+\d+\.\d+ \[\d+ (?!lua)/) }
    end
  end

  private

  def info(field) = call("INFO", "everything")[/^#{field}:(\S+)/, 1]
end
