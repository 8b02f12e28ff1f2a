# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "support/lowkiq_writer"
require "delegate"
require "seriatim/import/lowkiq"

RSpec.describe "import lowkiq", limit: 240 do
  # A connection that breaks at the nth call, before or after Redis has done it.
  class Breaking
    Broken = Class.new(StandardError)

    def initialize(redis, at, after)
      @redis = redis
      @left = at
      @after = after
    end

    def call(*words)
      @left -= 1
      raise Broken if @left.zero? && !@after

      @redis.call(*words).tap { raise Broken if @left.zero? }
    end
  end

  before(:all) { @source = RedisServer.new }
  after(:all) { @source.remove }

  before { @source.flush }

  let(:old) { LowkiqWriter.new(@source, "Old") }
  let(:target) { worker("Old", codec: :marshal, shards_count: 3, max_retry_count: 5).tap { |made| made.perform_async([{ id: "makes the queue" }]) && made.actions.delete(["makes the queue"]) } }

  def constant(name) = Seriatim.module_eval { const_get(:Import) }.const_get(name)
  def connection = constant(:Redis).new(@source.url)
  def importer(redis = connection, **options) = constant(:Lowkiq).new(constant(:LowkiqQueue).new(redis, "Old"), target, **options)
  def import(...) = importer(...).tap(&:run).counts.reject { |_, count| count.zero? }
  def record(id) = target.queries.fetch([id]).first
  def dead(id) = target.queries.morgue_fetch([id]).first
  def everything = [target.queries.range_by_id("-", "+", limit: 1000), target.queries.morgue_range_by_id("-", "+", limit: 1000)]

  # Takes whatever waits and is due.
  def consume
    taken = []
    while (delivery = Seriatim.pop([target], wait: 0))
      delivery.payloads.each { |payload| taken << [delivery.id, payload] }
      delivery.ack
    end
    taken
  end

  def fill(soon)
    old.wait("fresh", { "b" => 2.5, "a" => 1 }, time: soon)
    old.wait("later", { { sym: [1, nil] } => 1.7e9 }, time: soon + 1000)
    old.wait("retried", { "x" => 1 }, time: soon + 2000, retries: 3, error: "boom \xff")
    old.process("ran", { "old" => 1, "older" => 0 }, time: soon - 5, retries: 2, error: "died")
    old.wait("ran", { "new" => 9, "old" => 7 }, time: soon)
    old.bury("dead", { "d" => 4, "c" => 3 }, time: 1_700_000_000.25, error: "fatal")
  end

  it "R-LOWKIQ-6: moves what waits, is delayed, retried, in process and dead, with scores, times, retry counts and errors; again, it changes nothing" do
    soon = Time.now.to_f.round(3)
    fill(soon)
    expect(import).to eq(waiting: 3, retrying: 1, in_process: 1, dead: 1, payloads: 10)
    expect(record("fresh")).to include(retry_count: -1, perform_in: be_within(0.001).of(soon), payloads: [["a", 1.0], ["b", 2.5]])
    expect(record("later")).to include(perform_in: be_within(0.001).of(soon + 1000), payloads: [[{ sym: [1, nil] }, 1.7e9]])
    expect(record("retried")).to include(retry_count: 3, perform_in: be_within(0.001).of(soon + 2000), error: "boom \xff".b)
    expect(record("ran")).to include(retry_count: 2, error: "died", payloads: [["older", 0.0], ["old", 1.0], ["new", 9.0]])
    expect(dead("dead")).to include(updated_at: 1_700_000_000.25, error: "fatal", payloads: [["c", 3.0], ["d", 4.0]])
    expect(old.keys).to eq([])
    before = everything
    expect(import).to eq({})
    expect(everything).to eq(before)
    expect(target.actions.check[:findings]).to eq([])
  end

  it "reads as the user of the URL, also if the user has no password" do
    connection.call("ACL", "SETUSER", "free", "on", "nopass", "~*", "+@all")
    connection.call("ACL", "SETUSER", "kept", "on", ">secret", "~*", "+@all")
    { "free@" => "free", "kept:secret@" => "kept", "" => "default" }.each do |login, user|
      expect(constant(:Redis).new(@source.url.sub("unix://", "unix://#{login}")).call("ACL", "WHOAMI")).to eq(user)
    end
  end

  it "R-LOWKIQ-6: joins what the queue has already: behind a run, parked, waiting, dead" do
    target.perform_async([{ id: "runs", payload: "1" }, { id: "waits", payload: "1", score: 5, delay: 500 }, { id: "parked", payload: "1" }])
    target.actions.park(["parked"])
    delivery = Seriatim.pop([target], wait: 0)
    old.wait("runs", { "2" => 2 }, retries: 1, error: "e")
    old.wait("waits", { "0" => 0 }, retries: 4, time: Time.now.to_f + 900, error: "failed")
    old.wait("parked", { "2" => 2e9 })
    old.bury("twice", { "1" => 1 }, time: 10, error: "first")
    import
    old.bury("twice", { "2" => 2 }, time: 5, error: "before")
    import
    delivery.ack
    expect(record("runs")).to include(retry_count: 1, error: "e", payloads: [["2", 2.0]])
    expect(record("waits")).to include(retry_count: 4, error: "failed", payloads: [["0", 0.0], ["1", 5.0]])
    expect(target.queries.parked.map { |row| row[:payloads].map(&:first) }).to eq([%w[1 2]])
    expect(dead("twice")).to include(updated_at: 10.0, error: "first", payloads: [["1", 1.0], ["2", 2.0]])
    expect(target.actions.check[:findings]).to eq([])
  end

  it "R-LOWKIQ-7: finds the payloads that Lowkiq has lost sight of, and reports ids without payloads" do
    old.strand("processing:payloads", "stolen", { "s" => 1 })
    old.strand("payloads", "lost", { "l" => 1 })
    old.strand("morgue:payloads", "buried", { "m" => 1 })
    old.call("ZADD", old.key("all_ids_scored_by_perfrom_in"), 77, "stranded") # its script was lost: the id counts for ever
    old.call("ZADD", old.key("all_ids_scored_by_retry_count"), -1, "stranded")
    old.strand("processing:payloads", "stranded", { "t" => 1 })
    old.call("ZADD", old.key("ids_scored_by_perform_in", 4), 1, "stale")
    old.wait("empty", {})
    expect(import).to eq(orphans: 4, payloads: 4, without_payload: 1)
    expect(consume).to contain_exactly(%w[stolen s], %w[lost l], %w[stranded t])
    expect(dead("buried")[:payloads]).to eq([["m", 1.0]])
    expect(old.keys).to eq([])
  end

  # Imports over connections of which each breaks at its call in `breaks`, while a worker takes what has come.
  # @return [Array] what the worker was given, and whether the first connection broke
  def cut_off(breaks)
    broke = breaks.map do |at, after|
      import(Breaking.new(connection, at, after)) && false
    rescue Breaking::Broken
      (@taken ||= []).concat(consume) && true
    end
    import
    [[*@taken, *consume].tap { @taken = nil }, broke.first]
  end

  it "R-LOWKIQ-8: adds each payload once, wherever it is cut off, while workers take what has come" do
    source = LowkiqWriter.new(@source, "Old", shards: 2)
    target
    # The next one is cut off before the records that are staged can be released.
    (1..).each do |at|
      broke = [false, true].map do |after|
        source.wait("a", { "a1" => 1, "a2" => 2 })
        source.wait("b", { "b1" => 1 })
        source.process("a", { "a0" => 0 })
        source.bury("dead#{at}#{after}", { "d" => 1 })
        taken, broke = cut_off([[at, after], [4, false]])
        expect(taken.sort).to eq([%w[a a0], %w[a a1], %w[a a2], %w[b b1]]), "call #{at}: #{taken}"
        expect(taken.select { |id, _| id == "a" }).to eq([%w[a a0], %w[a a1], %w[a a2]])
        broke
      end
      break expect(at).to be > 15 if broke.none?
    end
    expect(target.metrics).to include(morgue_length: be > 30, length: 0)
    expect(source.keys).to eq([])
  end

  it "R-LOWKIQ-8: two at once add each payload once" do
    200.times { |i| old.wait("id#{i}", { i => i }) }
    [importer, importer].map { |each| Thread.new { each.run } }.each(&:join)
    expect(consume.map(&:last).sort).to eq((0...200).to_a)
  end

  # Between the two looks at the waiting ids: the index of all ids was empty.
  it "R-LOWKIQ-8: what is pushed while it looks is no orphan" do
    writer = old
    pushing = Class.new(SimpleDelegator) do
      define_method(:call) do |*words|
        looks = words.last == "all_ids_scored_by_perfrom_in"
        writer.wait("new", { 1 => 1 }) if looks && !@pushed
        @pushed ||= looks
        super(*words)
      end
    end
    expect(import(pushing.new(connection))).to eq(waiting: 1, payloads: 1)
  end

  it "R-LOWKIQ-9: takes an id with many payloads, or large ones, in parts" do
    old.wait("many", Array.new(700) { |i| [i, i] }.to_h)
    old.wait("large", Array.new(5) { |i| [i.to_s * 200_000, i] }.to_h)
    expect(import).to include(waiting: 8, payloads: 705)
    expect(consume.group_by(&:first).transform_values { |rows| rows.map(&:last) }).to eq("many" => (0...700).to_a, "large" => Array.new(5) { |i| i.to_s * 200_000 })
  end

  it "R-LOWKIQ-9: puts a time or a score that cannot be into range" do
    old.wait("zero", { "a" => "-inf" }, time: 0)
    old.wait("milliseconds", { "b" => 1 }, time: 1_790_000_000_000)
    import
    expect(record("zero")).to include(perform_in: be_within(60).of(Time.now.to_f), payloads: [["a", -Float::MAX]])
    expect(record("milliseconds")[:perform_in]).to be_within(1000).of(Time.now.to_f + (100 * 365 * 86_400))
  end

  it "R-LOWKIQ-10: keeps what cannot be added, and says why" do
    old.wait("x" * 1025, { "a" => 1 })
    old.wait("large", { "b" * 1_100_000 => 1 })
    old.wait("good", { "c" => 1 })
    moved = importer.tap(&:run)
    expect(moved.counts).to include(refused: 2, waiting: 1)
    expect(moved.reasons).to contain_exactly(/x{60}": ids\[0\] must be 1 to 1024 bytes/, /id "large": a payload has 11\d{5} bytes; it must have at most 1048576/)
    expect(old.call("LLEN", old.key("seriatim:refused"))).to eq("2")
    expect(consume).to eq([%w[good c]])
  end

  it "R-LOWKIQ-10: nothing is taken for added where the queue was deleted meanwhile" do
    old.wait("a", { "1" => 1 })
    begun = importer
    target.actions.delete_queue
    expect { begun.run }.to raise_error(Seriatim::Invalid, /no queue "Old"/)
    target.perform_async([{ id: "new", delay: 500 }])
    import
    expect(consume).to eq([%w[a 1]])
  end

  it "tells a Redis that is not ready from one that refuses" do
    said = ->(text) { connection.call("EVAL", "return redis.error_reply(ARGV[1])", 0, text) }
    %w[LOADING BUSY MASTERDOWN TRYAGAIN CLUSTERDOWN].each { |word| expect { said.call("#{word} it is") }.to raise_error(Seriatim::NotReady, /: #{word} it is/) }
    %w[BUSYKEY OOM].each { |word| expect { said.call("#{word} it is") }.to raise_error(Seriatim::RedisError, /: #{word} it is/) }
  end

  describe "the command" do
    def run(*words, **options) = Command.run("import", "lowkiq", "Old", "--from", @source.url, *words, **options)

    it "R-LOWKIQ-11: imports, reports, and converts payloads to the codec of the application's worker" do
      expect(run).to match([/unknown queue "Old"/, 2])
      old.wait("a", { { n: 1 } => 1 })
      expect(run("--create")).to eq(["imported waiting 1, retrying 0, in process 0, dead 0, orphans 0, without payload 0, payloads 1, known 0, refused 0\n", 0])
      expect(consume).to eq([["a", { n: 1 }]])
      old.wait("a", { { n: 2 } => 1 })
      old.wait("b", { Object.new => 1 })
      Dir.mktmpdir do |dir|
        File.write(File.join(dir, "app.rb"), "module Old; extend Seriatim::Worker; end")
        output, code = run("-r", File.join(dir, "app.rb"))
        expect([output, code]).to match([/payloads 1,.*refused 1\nrefused: id "b": its payload cannot be converted|refused: id "b": payload/, 1])
      end
      expect(Seriatim.pop([worker("Old")], wait: 0).payloads).to eq([{ "n" => 2 }])
      expect(Command.run("import", "lowkiq", "Old", "--from", "http://x")).to match([/--from must be a URL redis:/, 2])
      expect(Command.run("import", "lowkiq", "Old", "--from", "redis://127.0.0.1:1")).to match([%r{no Redis: cannot connect to redis://127.0.0.1:1/0}, 3])
    end

    it "R-LOWKIQ-11: finds the keys of an application whose client is a Redis::Namespace" do
      inside = LowkiqWriter.new(@source, "Old", below: "shop:")
      inside.wait("a", { 1 => 1 })
      inside.wait("x" * 1025, { 2 => 1 })
      Dir.mktmpdir do |dir|
        File.write(File.join(dir, "app.rb"), <<~RUBY)
          require "seriatim/lowkiq"
          Plain = Struct.new(:options) { def _client = self }
          Namespaced = Struct.new(:namespace, :_client)
          Lowkiq.redis = -> { Namespaced.new("shop", Plain.new({ path: #{REDIS.url.delete_prefix("unix://").inspect} })) }
          module Old; extend Lowkiq::Worker; end
        RUBY
        expect(run("-r", File.join(dir, "app.rb"))).to match([/imported waiting 1,.* refused 1\n.*kept in shop:lowkiq:A:v1:Old:seriatim:refused\n/m, 1])
      end
      expect(inside.keys).to eq([])
      Seriatim.namespace = "shop:seriatim"
      expect(Seriatim.pop([worker("Old", codec: :marshal)], wait: 0).payloads).to eq([1])
    end

    it "R-LOWKIQ-12: --watch goes on with what producers push, until a signal" do
      target
      old.wait("before", { 1 => 1 })
      command = Command.new("import", "lowkiq", "Old", "--from", @source.url, "--watch", "--json", wait: false)
      eventually { consume.any? }
      old.wait("while", { 2 => 1 })
      eventually { consume == [["while", 2]] }
      expect(command.stop).to eq(0)
      expect(command.log).to include('"waiting":2')
    ensure
      command&.remove
    end

    # While the block runs, this Redis runs a script and refuses all else.
    def busy(redis)
      redis.call("CONFIG", "SET", "lua-time-limit", 50)
      script = Thread.new { redis.call("EVAL", "while true do end", 0) rescue nil }
      eventually { redis.call("PING") && false rescue true }
      yield
    ensure
      redis.call("SCRIPT", "KILL")
      script.join
      redis.call("CONFIG", "SET", "lua-time-limit", 5000)
    end

    # An application whose file "watching" says that --watch has begun; while there is a file "away", Seriatim's Redis is not ready.
    def watched(dir)
      File.join(dir, "app.rb").tap { |path| File.write(path, <<~RUBY) }
        require "seriatim/import/lowkiq"
        module Old; extend Seriatim::Worker; self.codec = :marshal; end
        here = __dir__
        Seriatim.const_get(:Import)::Lowkiq.prepend(Module.new { define_method(:watch) { File.write("\#{here}/watching", "") && super() } })
        Seriatim.const_get(:Connection).prepend(Module.new do
          define_method(:action) { |*words| File.exist?("\#{here}/away") ? raise(Seriatim::NotReady, "ours is loading") : super(*words) }
        end)
      RUBY
    end

    it "R-LOWKIQ-12: --watch goes on once a Redis is ready again, on either side" do
      target
      Dir.mktmpdir do |dir|
        command = Command.new("import", "lowkiq", "Old", "--from", @source.url, "--watch", "-r", watched(dir), wait: false)
        eventually { File.exist?(File.join(dir, "watching")) }
        busy(@source) { command.wait_for(/ import unix:\S+: BUSY /) }
        File.write(File.join(dir, "away"), "")
        old.wait("while", { 2 => 1 })
        command.wait_for(/ import ours is loading/)
        File.delete(File.join(dir, "away"))
        eventually { consume == [["while", 2]] }
        expect(command.stop).to eq(0)
      ensure
        command&.remove
      end
    end
  end
end
