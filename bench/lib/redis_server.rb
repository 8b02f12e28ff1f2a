# frozen_string_literal: true

require "socket"

# A redis-server of the benchmark's own: TCP on loopback, nothing on disk.
class RedisServer
  attr_reader :port

  def initialize(folder)
    @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    @process = Process.detach(spawn("redis-server", "--bind", "127.0.0.1", "--port", @port.to_s, "--save", "",
                                    "--appendonly", "no", "--dir", folder, out: File::NULL, pgroup: true))
    sleep 0.01 until answers?
  end

  def url = "redis://127.0.0.1:#{@port}"
  def pid = @process.pid
  def flush = call("FLUSHALL", "SYNC") && call("CONFIG", "RESETSTAT")
  def used_memory = info("used_memory").to_i
  def version = info("redis_version")
  def cpu_seconds = info("used_cpu_user").to_f + info("used_cpu_sys").to_f

  # Calls of commands so far, those of scripts among them.
  def calls = call("INFO", "commandstats").scan(/^cmdstat_(?!info|config|flushall)\S+?:calls=(\d+)/).sum { |(calls)| calls.to_i }

  # The commands that clients sent in so many seconds; what scripts call does not count.
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

  def answers?
    call("PING") == "+PONG"
  rescue SystemCallError
    @process.alive? ? false : raise("redis-server did not start")
  end

  def info(field) = call("INFO", "everything")[/^#{field}:(\S+)/, 1]

  # Inline commands are enough here; the answer is a line, or a text of so many bytes.
  def call(*words)
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("#{words.join(" ")}\r\n")
      line = socket.gets.chomp
      line.start_with?("$") ? socket.read(line[1..].to_i) : line
    end
  end
end
