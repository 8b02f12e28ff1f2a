# frozen_string_literal: true

require "socket"

# A redis-server of the benchmark's own: TCP on loopback, nothing on disk but what a restart is told to keep.
class RedisServer
  attr_reader :port

  def initialize(folder)
    @folder = folder
    @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    start("no")
  end

  # Ends it by SIGKILL and starts it again from what is in its folder: from the append-only file if there is to be one, else from the snapshot.
  # @return [Float] the seconds until it answered
  def restart(appendonly:)
    Process.kill(:KILL, @process.pid)
    @process.join
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    start(appendonly ? "yes" : "no")
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - before
  end

  # Writes a snapshot.
  def save = call("SAVE")

  # Begins an append-only file, and waits until it holds everything.
  def append_only
    call("CONFIG", "SET", "appendonly", "yes")
    sleep 0.05 until %w[aof_rewrite_in_progress aof_rewrite_scheduled].all? { |field| info(field) == "0" }
  end

  # Writes no append-only file any more.
  def append_nothing = call("CONFIG", "SET", "appendonly", "no")

  # @return [Integer] members of a sorted set, fields of a hash
  def zcard(key) = call("ZCARD", key).delete(":").to_i
  def hlen(key) = call("HLEN", key).delete(":").to_i

  def url = "redis://127.0.0.1:#{@port}"
  def pid = @process.pid
  def flush = call("FLUSHALL", "SYNC") && call("CONFIG", "RESETSTAT")
  def used_memory = info("used_memory").to_i
  def version = info("redis_version")
  def cpu_seconds = call("INFO", "cpu").scan(/^used_cpu_(?:user|sys):(\S+)/).sum { |(seconds)| seconds.to_f }

  # Calls of commands so far, those of scripts among them.
  def calls = call("INFO", "commandstats").scan(/^cmdstat_(?!info|config|flushall)\S+?:calls=(\d+)/).sum { |(calls)| calls.to_i }

  # The slowest command since the last call, which begins to note them: ms and its words; of what takes less than 0.1 ms: 0.
  # @return [Array(Float, Array<String>)]
  def slowest
    entries = call("SLOWLOG", "GET", "-1").reject { |_, _, _, words| %w[SLOWLOG CONFIG].include?(words.first) }
    call("CONFIG", "SET", "slowlog-max-len", "10000", "slowlog-log-slower-than", "100")
    call("SLOWLOG", "RESET")
    _, _, time, words = entries.max_by { |entry| entry[2].delete(":").to_i }
    [time.to_s.delete(":").to_i / 1000.0, words || []]
  end

  # The number of commands that clients sent in `seconds`; commands called by scripts are not counted.
  def commands_in(seconds)
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("MONITOR\r\n")
      sleep seconds
      socket.read_nonblock(10_000_000).lines.count { |line| line.match?(/\A\+\d+\.\d+ \[\d+ (?!lua)/) }
    end
  end

  def stop
    Process.kill(:TERM, @process.pid) if @process.alive?
    @process.value
  end

  private

  def start(appendonly)
    @process = Process.detach(spawn("redis-server", "--bind", "127.0.0.1", "--port", @port.to_s, "--save", "",
                                    "--appendonly", appendonly, "--dir", @folder, out: File::NULL, pgroup: true))
    sleep 0.01 until answers?
  end

  # Not while it loads its file.
  def answers?
    call("PING") == "+PONG"
  rescue SystemCallError
    @process.alive? ? false : raise("redis-server did not start")
  end

  def info(field) = call("INFO", "everything")[/^#{field}:(\S+)/, 1]

  # Inline commands are enough here.
  def call(*words)
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("#{words.join(" ")}\r\n")
      answer(socket)
    end
  end

  # Reads one reply: a line, a text of the announced length, or a list of both.
  def answer(socket)
    line = socket.gets.chomp
    case line[0]
    when "$" then socket.read(line[1..].to_i + 2).delete_suffix("\r\n")
    when "*" then Array.new(line[1..].to_i) { answer(socket) }
    else line
    end
  end
end
