# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "../../support/redis_server"

# A master, its replica and three sentinels, each a real process; a Kit takes it in place of a RedisServer.
class SentinelSetup
  NAME = "house"
  PATIENCE = 100
  PATIENT_MS = 60_000 # a master that stalls is not replaced unless kill_master asks for it

  # A redis-server that may come back as a replica. It keeps nothing on disk: what the other one lacks is lost when it dies.
  class Member < RedisServer
    attr_reader :port

    def initialize(master_port = nil)
      @port = RedisServer.free_port
      super()
    end

    def start(master_port = nil)
      @arguments = ["--bind", "127.0.0.1", "--port", port.to_s, "--appendonly", "no", "--repl-diskless-sync", "yes",
                    "--repl-diskless-sync-delay", "0", *(["--replicaof", "127.0.0.1", master_port.to_s] if master_port)]
      super()
    end

    def says?(*lines) = (text = call("INFO", "replication")) && lines.all? { |line| text.include?(line) }
  end

  attr_reader :master, :replica

  # @param down_after [Integer] milliseconds from the death of a master until the sentinels call it dead
  def initialize(down_after: 1500)
    @down_after = down_after
    @master = Member.new
    @replica = Member.new
    @folder = Dir.mktmpdir("seriatim-sentinels")
    @sentinels = []
    follow
    3.times { start_sentinel }
    eventually { all_say?("slaves=1,sentinels=3", "INFO", "sentinel") }
  end

  def url = "redis+sentinel://#{@sentinels.map { |sentinel| "127.0.0.1:#{sentinel.port}" }.join(",")}/#{NAME}"

  # Sends a command to the master.
  def call(*words) = master.call(*words)

  # Kills the master by SIGKILL. Returns when the sentinels name the other server and it is the master.
  def kill_master
    master.stop(:KILL)
    yield if block_given?
    limit_silence(@down_after)
    eventually { all_say?(replica.port.to_s, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME) }
    eventually { replica.says?("role:master") }
    @master, @replica = replica, master
    limit_silence(PATIENT_MS)
  end

  # Starts the killed server again as a replica and waits until it has all data.
  def mend
    follow
    eventually { all_say?(replica.port.to_s, "SENTINEL", "REPLICAS", NAME) }
  end

  # Waits until the replica has all that was written before.
  def await_replica
    UNIXSocket.open(master.socket) do |io|
      RedisProtocol.call(io, "PING") # WAIT is about what was written before the connection's last command
      eventually { RedisProtocol.call(io, "WAIT", 1, 1000) != "0" }
    end
  end

  def remove
    @sentinels.each(&:kill)
    [master, replica].each(&:remove)
    FileUtils.rm_rf(@folder)
  end

  private

  # Waits until the replica has all that the master has.
  def follow
    replica.stop(:KILL)
    replica.start(master.port)
    eventually { replica.says?("master_link_status:up") && master.says?("state=online") }
  end

  def limit_silence(milliseconds)
    @sentinels.each { |sentinel| eventually { sentinel.ask("SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds) == "OK" } }
  end

  def start_sentinel
    sentinel = RedisSentinel.new(@folder, NAME, master.port, quorum: 2, "down-after-milliseconds": PATIENT_MS, "failover-timeout": 3000)
    @sentinels << sentinel
    eventually { sentinel.ask("PING") == "PONG" }
  end

  def all_say?(text, *words) = @sentinels.all? { |sentinel| sentinel.ask(*words).include?(text) }

  # INFO says sentinel_tilt:1 where a sentinel has stopped for 30 s because the machine was too slow for it.
  def what_all_say = @sentinels.map { |sentinel| sentinel.ask("INFO", "sentinel").split("\r\n") }

  def eventually
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      raise "the sentinels do not agree: #{what_all_say}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.05
    end
  end
end
