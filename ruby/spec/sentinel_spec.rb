# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

# One real sentinel, a master and its replica.
RSpec.describe "redis+sentinel://" do
  before(:context) do
    @ports = Array.new(3) { RedisServer.free_port }
    @master = RedisServer.new("--port", @ports[0].to_s, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
    @replica = RedisServer.new("--port", @ports[1].to_s, "--replicaof", "127.0.0.1 #{@ports[0]}")
    @folder = Dir.mktmpdir("seriatim-sentinel")
    eventually { @master.call("INFO", "replication")[/state=online/] } # the sentinel asks at once, and then after 10 s
    @sentinel = RedisSentinel.new(@folder, "jobs", @ports[0], port: @ports[2], "down-after-milliseconds": 8000)
  end

  after(:context) do
    @sentinel&.kill
    [@master, @replica].each { |redis| redis&.remove }
    FileUtils.rm_rf(@folder)
  end

  it "finds the master by its sentinels, and the next one after a failover, in the client and in the server", limit: 240 do
    eventually { @sentinel.ask("INFO", "sentinel").include?("slaves=1") }
    Seriatim.redis = "redis+sentinel://127.0.0.1:1,127.0.0.1:#{@ports[2]}/jobs" # the first one is dead
    Seriatim.wait_replicas = 1
    Seriatim.wait_timeout = 10
    recorder = worker("Sentinel")
    server = serve(recorder, threads: 2)
    recorder.perform_async([{ id: "before", payload: 1 }])
    expect(runs(recorder).first.payloads).to eq("before" => [1])
    expect(@master.call("DBSIZE").to_i).to be > 0

    @master.stop(:KILL)
    recorder.perform_async([{ id: "after", payload: 2 }], wait_replicas: 0)
    expect(runs(recorder, seconds: 100).first.payloads).to eq("after" => [2])
    expect(@replica.call("INFO", "clients")[/connected_clients:(\d+)/, 1].to_i).to be > 1
    # It is named at each connection, so more than once if one was lost.
    eventually { log.scan(/the master is 127.0.0.1:(\d+)/).flatten.chunk_while { |a, b| a == b }.map(&:first) == @ports.first(2).map(&:to_s) }
    expect(server.stop(30)).to be(true)
  end

  it "lets other threads run while the name of the next sentinel is looked up" do
    Dir.mktmpdir do |folder|
      silent = TCPServer.new("127.0.0.1", 0)
      env = { **Command::NEUTRAL, **slow_resolver(folder, milliseconds: 4000) }
      url = "redis+sentinel://127.0.0.1:#{silent.addr[1]},slow.test:1/jobs"
      output, status = Open3.capture2e(env, *Command::RUBY, File.join(__dir__, "support/looking_up.rb"), url)
      expect(status.success?).to be(true), output
      message, longest = output.lines(chomp: true)
      expect(message).to include("no answer in 500 ms; slow.test:1: ")
      expect(longest.to_f).to be < 3
    ensure
      silent&.close
    end
  end

  it "refuses a URL without the master's name" do
    expect { Seriatim.redis = "redis+sentinel://127.0.0.1:1" }.to raise_error(Seriatim::Invalid, /master/)
  end
end
