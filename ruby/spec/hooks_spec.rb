# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "hooks and boot" do
  it "R-HOOK-1: calls on_server_init once, before any job" do
    order = Thread::Queue.new
    Seriatim.on_server_init = -> { order << :init }
    recorder = worker("Init") { order << :job }
    recorder.perform_async([{ id: 1 }, { id: 2 }])
    serve(recorder)
    runs(recorder, 2)
    expect(Array.new(order.size) { order.pop }).to eq(%i[init job job])
  end

  it "R-REDIS-4: goes on after a lost connection", :slow do
    redis = RedisServer.new
    Seriatim.redis = redis.url
    recorder = worker("Lost")
    serve(recorder)
    recorder.perform_async([{ id: 1 }]) and runs(recorder)
    redis.stop(:KILL)
    sleep 0.3
    redis.start
    recorder.perform_async([{ id: 2 }])
    expect(runs(recorder).first.payloads).to eq("2" => [""])
  ensure
    stop_servers
    redis&.remove
  end

  it "refuses to start without a worker, with an unknown queue, with two of one name" do
    expect { Seriatim::Server.new(workers: []) }.to raise_error(Seriatim::UsageError, /no workers/)
    expect { Seriatim::Server.new(workers: [worker("a")], queues: ["b"]) }.to raise_error(Seriatim::UsageError, /unknown queue "b"; there are "a"/)
    expect { Seriatim::Server.new(workers: [worker("a"), worker("a")]) }.to raise_error(Seriatim::UsageError, /same queue_name "a"/)
    expect { Seriatim::Server.new(workers: [String]) }.to raise_error(Seriatim::UsageError, /does not extend/)
    expect { Seriatim::Server.new(workers: ["NoSuchWorker"]) }.to raise_error(Seriatim::UsageError, /there is no NoSuchWorker/)
  end

  it "finds workers by name, by callable, or all that there are" do
    late = worker("late")
    stub_const("LateWorker", late)
    expect(Seriatim::Server.new(workers: ["LateWorker"]).worker(0).module).to eq(late)
    Seriatim.workers = -> { [late] }
    expect(Seriatim::Server.new.worker(0).module).to eq(late)
    Seriatim.reset_settings
    expect(Seriatim::Server.new.worker(0).current).to eq(late)
  end

  it "F34 warns when Redis knows another number of shards" do
    worker("Resized", shards_count: 3).perform_async([{ id: 1 }])
    recorder = worker("Resized", shards_count: 7)
    serve(recorder)
    eventually { log[/WARN .*queue "Resized" has 3 shards; this server says shards_count = 7, which counts only when a queue is created: /] }
  end

  it "F30 warns of a Redis that may lose jobs" do
    REDIS.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    serve(worker("Health"))
    expect(log).to include("maxmemory-policy is allkeys-lru")
  ensure
    REDIS.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
  end

  it "F6 warns of a Redis that keeps nothing on disk" do
    redis = RedisServer.new("--appendonly", "no")
    Seriatim.redis = redis.url
    serve(worker("Disk")).stop
    expect(log).to include("appendonly is no")
  ensure
    redis&.remove
  end

  it "F6 warns when pushes want more replicas than there are" do
    Seriatim.wait_replicas = 2
    serve(worker("Wanting"))
    expect(log).to include("wait_replicas is 2, but Redis has 0 replicas")
  end

  it "warns of nothing where Redis keeps jobs" do
    serve(worker("Well"))
    expect(log).not_to match(/maxmemory|appendonly/)
  end

  it "starts where Redis forbids INFO and CONFIG" do
    as_limited_user("-info", "-config") do |url|
      Seriatim.redis = url
      recorder = worker("Limited")
      server = serve(recorder)
      expect(log).to include("Redis forbids INFO, so maxmemory-policy and appendonly cannot be checked")
      recorder.perform_async([{ id: 1 }])
      runs(recorder)
      server.stop
    end
  end

  it "logs lines of text, or of JSON with the same fields" do
    Seriatim::Log.info("done", "two\nlines", q: "a b", id: "x", n: 1, elapsed: 0.5)
    expect(log).to match(/\AINFO \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z pid=\d+ tid=\w+ q="a b" id=x n=1 elapsed=0\.500 done two \| lines\n\z/)
    Seriatim::Log.info("done", id: "a\e[2J")
    expect(log).to end_with(%q( id="a\e[2J" done) + "\n")
    Seriatim.logger = Seriatim::Log.default(out = StringIO.new, format: "json")
    Seriatim::Log.warn("lost", "\xFF".b, q: "q")
    expect(JSON.parse(out.string)).to include("lvl" => "WARN", "event" => "lost", "msg" => "?", "q" => "q")
    Seriatim.logger = Logger.new(out = StringIO.new)
    Seriatim::Log.error("fail", "x", id: 5)
    expect(out.string).to match(/ERROR -- : fail x id=5/)
  end

  describe "with a logger whose level is a name, as that of SemanticLogger is" do
    # It takes all that it is given, so that the examples see what is dropped before.
    let(:logger) do
      lines = @lines = []
      Class.new(Logger) do
        attr_writer :named

        def level = @named.respond_to?(:call) ? @named.call : @named
        define_method(:add) { |level, text| lines << [level, text] }
      end.new(nil)
    end

    before do
      logger.named = :info
      Seriatim.logger = logger
    end

    it "logs the warning of a push, and drops what is below the level" do
      worker("Named", fold: :list).perform_async([{ id: 1 }])
      Seriatim.redis = REDIS.url # a new connection, which has not read the settings of the queue
      expect(worker("Named", fold: :last).perform_async([{ id: 2 }]).added).to eq(1)
      Seriatim::Log.debug("start")
      Seriatim::Log.notice("redis", "started")
      expect(@lines).to match([[Logger::WARN, /queue "Named" has other settings/], [Logger::INFO, "redis started"]])
    end

    it "writes a notice to standard error, if the format is ours" do
      logger.formatter = Seriatim::Log.formatter("text")
      expect { Seriatim::Log.notice("redis", "started") }.to output(/\AINFO .* redis started\n\z/).to_stderr
      logger.named = :warn
      expect { Seriatim::Log.notice("redis", "started") }.not_to output.to_stderr
    end

    it "takes a level that is unknown, or that cannot be read, for DEBUG" do
      debug = { info: false, "WARN" => false, debug: true, trace: true, nil => true, -> { raise NotImplementedError } => true }
      debug.each do |level, expected|
        logger.named = level
        expect(Seriatim::Log.debug?).to be(expected), level.inspect
      end
    end
  end

  it "may be stopped and started again, with a server of its own each time" do
    recorder = worker("Again")
    3.times do |i|
      server = serve(recorder)
      recorder.perform_async([{ id: i }])
      runs(recorder)
      expect(server.stop).to be(true)
      expect(server.stop).to be(true)
    end
  end
end
