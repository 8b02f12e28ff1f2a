# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "redis"

# A master, its replica and three sentinels, each a real process; a Kit takes it in place of a RedisServer.
class SentinelSetup
  NAME = "house"
  PATIENCE = 100

  # A redis-server that may come back as a replica. It keeps nothing on disk: what the other one lacks is lost when it dies.
  class Member < RestartableRedis
    attr_reader :port

    public :read

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

  def initialize(down_after: 1500)
    @master = Member.new
    @replica = Member.new
    @folder = Dir.mktmpdir("seriatim-sentinels")
    @sentinels = []
    follow
    3.times { start_sentinel(down_after) }
    eventually { @sentinels.all? { |port, _| ask(port, "INFO", "sentinel").include?("slaves=1,sentinels=3") } }
  end

  def url = "redis+sentinel://#{@sentinels.map { |port, _| "127.0.0.1:#{port}" }.join(",")}/#{NAME}"

  # Sends a command to the master.
  def call(*words) = master.call(*words)

  # Kills the master by SIGKILL. Returns when the sentinels name the other server and it is the master.
  def kill_master
    master.stop(:KILL)
    yield if block_given?
    eventually { @sentinels.all? { |port, _| ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME).include?(replica.port.to_s) } }
    eventually { replica.says?("role:master") }
    @master, @replica = replica, master
  end

  # Starts the killed server again as a replica and waits until it has all data.
  def mend
    follow
    eventually { @sentinels.all? { |port, _| ask(port, "SENTINEL", "REPLICAS", NAME).include?(replica.port.to_s) } }
  end

  def remove
    @sentinels.each { |_, pid| Process.kill(:KILL, pid) && Process.wait(pid) }
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

  def start_sentinel(down_after)
    port = RedisServer.free_port
    file = File.join(@folder, "#{port}.conf")
    File.write(file, <<~CONFIGURATION)
      port #{port}
      bind 127.0.0.1
      dir #{@folder}
      sentinel monitor #{NAME} 127.0.0.1 #{master.port} 2
      sentinel down-after-milliseconds #{NAME} #{down_after}
      sentinel failover-timeout #{NAME} 3000
    CONFIGURATION
    pid = Process.spawn({ "LD_PRELOAD" => nil }, "redis-server", file, "--sentinel", out: "#{file}.log", err: %i[child out])
    @sentinels << [port, pid]
    eventually { ask(port, "PING").include?("PONG") }
  end

  # Its answer as one text.
  def ask(port, *words)
    TCPSocket.open("127.0.0.1", port) do |io|
      io.write("*#{words.size}\r\n", *words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" })
      master.read(io).to_s
    end
  rescue SystemCallError
    ""
  end

  def eventually
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      raise "the sentinels do not agree" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.05
    end
  end
end
