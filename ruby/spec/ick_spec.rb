# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../../spec/support/figures"

# Two-phase commit sets, with the calls of the Redis::Ick gem.
RSpec.describe Seriatim::Ick do
  # Notes what a statsd client is asked for.
  class Recorder
    attr_reader :increments, :timings, :times

    def initialize
      @increments = []
      @timings = {}
      @times = []
    end

    def increment(name) = @increments << name
    def timing(name, value) = @timings[name] = value

    def time(name)
      @times << name
      yield
    end
  end

  subject(:ick) { described_class.new }

  it "R-ICK-1, R-ICK-14: adds members, and lowers their scores" do
    expect(ick.ickstats("k")).to be_nil
    expect(ick.ickadd("k")).to eq([0, 0])
    expect(ick.ickadd("k", 5, "foo")).to eq([1, 0])
    expect(ick.ickadd("k", 10, "foo", 13, "bar")).to eq([1, 0])
    expect(ick.ickadd("k", [4.5, "foo", Rational(1), :baz])).to eq([1, 1])
    expect(ick.ickstats("k")).to eq(
      "key" => "k", "pset_key" => "seriatim:{/ick/k}:pset", "cset_key" => "seriatim:{/ick/k}:cset:consumer", "ver" => "ick.v2",
      "cset_size" => 0, "pset_size" => 3, "total_size" => 3, "consumers" => 0,
      "pset_min" => 1, "pset_max" => 13, "total_min" => 1, "total_max" => 13
    )
  end

  it "R-ICK-2, R-ICK-14: gives a batch again until it is committed" do
    ick.ickadd("k", 7, "a", 8.25, "b", 9, 42)
    expect(ick.ickreserve("k")).to eq([])
    expect(ick.ickreserve("k", 2)).to eq([["a", 7.0], ["b", 8.25]])
    expect(ick.ickreserve("k", 2)).to eq([["a", 7.0], ["b", 8.25]])
    expect(ick.ickcommit("k", "b")).to eq(1)
    expect(ick.ickexchange("k", 2, "a", "unknown")).to eq([["42", 9.0]])
    expect(ick.ickcommit("k", [42])).to eq(1)
    expect(ick.ickstats("k")).to include("cset_size" => 0, "total_size" => 0)
    expect(ick.ickdel("k")).to eq(1)
    expect(ick.ickunlink("k")).to eq(0)
  end

  it "R-ICK-6: backwash gives the lowest of all" do
    ick.ickadd("k", 5, "a")
    ick.ickreserve("k", 1)
    ick.ickadd("k", -Float::INFINITY, "first")
    expect(ick.ickreserve("k", 1)).to eq([["a", 5.0]])
    expect(ick.ickreserve("k", 1, backwash: true)).to eq([["first", -Float::INFINITY]])
  end

  # Between a client and Redis. Answers are handed on when nothing more has come from the client for a while.
  class Trips
    attr_reader :count, :url

    def initialize(path)
      @count = 0
      @listener = TCPServer.new("127.0.0.1", 0)
      @url = "redis://127.0.0.1:#{@listener.addr[1]}"
      @thread = Thread.new { loop { relay(@listener.accept, UNIXSocket.new(path)) } }
    end

    def close
      @thread.kill.join
      @listener.close
    end

    private

    def relay(client, redis)
      Thread.new { loop { trip(client, redis) } rescue IOError } # rubocop:disable Style/RescueModifier
    end

    # One write of the client, in however many pieces it comes, and its answers.
    def trip(client, redis)
      redis.write(client.readpartial(65_536))
      redis.write(client.readpartial(65_536)) while client.wait_readable(0.3)
      @count += 1
      client.write(redis.readpartial(65_536))
      client.write(redis.readpartial(65_536)) while redis.wait_readable(0.3)
    end
  end

  it "R-ICK-6: an exchange takes one trip to Redis" do
    trips = Trips.new(REDIS.socket)
    ick = described_class.new(trips.url)
    ick.ickadd("k", 1, "a", 2, "b")
    ick.ickreserve("k", 1)
    before = trips.count
    expect(ick.ickexchange("k", 1, "a")).to eq([["b", 2.0]])
    expect(trips.count - before).to eq(1)
  ensure
    trips&.close
  end

  it "R-ICK-4, R-ICK-5: each consumer commits only what it has reserved last" do
    other = described_class.new(consumer: "other", reserve_time: 5)
    restarted = described_class.new(REDIS.url)
    ick.ickadd("k", 1, "a")
    expect(ick.ickreserve("k", 1)).to eq([["a", 1.0]])
    ick.ickadd("k", 2, "a")
    expect(other.ickreserve("k", 1)).to eq([])
    expect(restarted.ickreserve("k", 1)).to eq([["a", 1.0]])
    expect(ick.ickcommit("k", "a")).to eq(0)
    expect(restarted.ickcommit("k", "a")).to eq(1)
    expect(other.ickreserve("k", 1)).to eq([["a", 2.0]])
  end

  it "R-ICK-8: takes calls of any size" do
    pairs = Array.new(200_000) { |i| i.even? ? i : (i / 2).to_s }
    expect(ick.ickadd("k", pairs)).to eq([100_000, 0])
    batch = ick.ickreserve("k", 100_000)
    expect(batch.size).to eq(100_000)
    expect(ick.ickcommit("k", batch.map(&:first))).to eq(100_000)
  end

  it "R-ICK-9, R-ICK-14: sends the calls of a pipeline together" do
    before = REDIS.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i
    futures = nil
    values = ick.pipelined do
      futures = [ick.ickadd("k", 1, "a", 2, "b", 3, "c", 4, "d"), ick.ickreserve("k", 4), ick.ickadd("k", 5, "a")]
      expect { futures.first.value }.to raise_error(Seriatim::Invalid, /block of pipelined has ended/)
    end
    expect(values).to eq([[4, 0], [["a", 1.0], ["b", 2.0], ["c", 3.0], ["d", 4.0]], [1, 0]])
    expect(futures.map(&:value)).to eq(values)
    expect(ick.ickcommit("k", "a", "b", "c", "d")).to eq(4)
    expect(ick.pipelined { nil }).to eq([])
    expect(REDIS.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i).to be > before
  end

  it "R-ICK-9: a commit of a pipeline has the token that the object had before" do
    ick.ickadd("k", 1, "a", 2, "b")
    ick.ickreserve("k", 1)
    values = ick.pipelined do
      ick.ickcommit("k", "a")
      ick.ickreserve("k", 1)
      ick.ickcommit("k", "b")
    end
    expect(values).to eq([1, [["b", 2.0]], 0])
    expect(ick.ickcommit("k", "b")).to eq(1)
  end

  it "R-ICK-9: a pipeline keeps copies of the names and members that it is given" do
    name = +"k"
    buffer = +""
    ick.pipelined do
      %w[a b].each { |member| ick.ickadd(name, 1, buffer.replace(member)) }
      ick.ickreserve(name, 2)
      name << "changed"
    end
    expect(ick.ickcommit("k", "a", "b")).to eq(2)
    expect(ick.ickstats("kchanged")).to be_nil
  end

  it "R-ICK-9: another thread's calls run at once while a pipeline is open" do
    other = nil
    values = ick.pipelined do
      ick.ickadd("k", 1, "a")
      other = Thread.new { [ick.ickadd("k", 2, "b"), ick.pipelined { ick.ickadd("k", 3, "c") }] }.value
      expect(ick.ickadd("k", 4, "d")).to be_a(described_class::Future)
    end
    expect(other).to eq([[1, 0], [[1, 0]]])
    expect(values).to eq([[1, 0], [1, 0]])
    expect { ick.pipelined { ick.pipelined { nil } } }.to raise_error(Seriatim::Invalid, /inside pipelined/)
  end

  it "R-ICK-4: a name is its bytes, in any encoding" do
    ick.ickadd("k\u00e9", 1, "a")
    ick.ickreserve("k\u00e9", 1)
    expect(ick.ickcommit("k\u00e9".b, "a")).to eq(1)
  end

  it "R-ICK-10: refuses wrong arguments by name, before any write" do
    {
      -> { ick.ickadd("k", 1, "a", Float::NAN, "z") } => /the score of member 2 is NaN/,
      -> { ick.ickadd("k", 1, "a", "2", "b") } => /the score of member 2 must be a number, not "2"/,
      -> { ick.ickadd("k", 1, "a", 10**400, "b") } => /the score of member 2 must be a number that a Float can hold, not 1000/,
      -> { ick.ickadd("k", 1) } => /a score and a member for each pair must be given, not 1 arguments/,
      -> { ick.ickadd("k", 1, nil) } => /member 1 must be a String, Symbol or Integer, not nil/,
      -> { ick.ickadd("k", 1, "x" * 1025) } => /member 1 has 1025 bytes; it must have at most 1024/,
      -> { ick.ickadd(:k, 1, "a") } => /name must be a String/,
      -> { ick.ickreserve("k", -1) } => /max_size must be an Integer from 0/,
      -> { ick.ickreserve("k", 1.5) } => /max_size must be an Integer/,
      -> { ick.ickreserve("k", 1, backwash: 1) } => /backwash must be true or false/,
      -> { described_class.new(statsd: Object.new) } => /statsd must be an object with increment, timing and time/,
      -> { described_class.new(consumer: "") } => /consumer must be a text of 1 to 512 bytes/,
      -> { described_class.new(reserve_time: 0) } => /reserve_time must be a number of seconds from 0.1/,
      -> { described_class.new(Object.new) } => /url must be a text/,
      -> { ick.import("none") } => /there is no set of Redis::Ick at the key "none"/
    }.each { |call, message| expect(&call).to raise_error(ArgumentError, message) }
    expect(REDIS.call("DBSIZE")).to eq("0")
  end

  it "R-ICK-12: imports what the gem has stored" do
    REDIS.call("SET", "old", "ick.v1")
    REDIS.call("ZADD", "old/ick/{old}/pset", "1.5", "a")
    REDIS.call("ZADD", "old/ick/{old}/cset", "0.5", "a", "7", "b")
    expect(ick.import("k", from: "old")).to eq([2, 1])
    expect(ick.ickreserve("k", 5)).to eq([["a", 0.5], ["b", 7.0]])
  end

  it "R-ICK-14: tells statsd of each call once, with its sizes" do
    statsd = Recorder.new
    ick = described_class.new(statsd: statsd)
    ick.ickadd("k", 1, "a", 2, "b")
    ick.ickreserve("k", 7)
    ick.ickcommit("k", "a")
    ick.ickexchange("k", 3, "b")
    ick.ickstats("k")
    ick.ickdel("k")
    ick.ickunlink("k")
    names = %w[ickadd ickreserve ickcommit ickexchange ickstats ickdel ickunlink]
    expect(statsd.increments).to eq(names.map { |name| "profile.ick.#{name}.calls" })
    expect(statsd.timings).to eq(
      "profile.ick.ickadd.pairs" => 2, "profile.ick.ickreserve.max_size" => 7, "profile.ick.ickcommit.members" => 1,
      "profile.ick.ickexchange.reserve_size" => 3, "profile.ick.ickexchange.commit_members" => 1
    )
    expect(statsd.times).to match_array(names.map { |name| "profile.ick.time.#{name}" } + %w[profile.ick.ickdel.time profile.ick.ickunlink.time])
  end

  # Random steps of two to four consumers on one set. Two of the objects have one name: each is the other's zombie, which goes on with a
  # batch that it was given long ago. A member that was added after the last reserve whose batch was committed must be given once more.
  # core/test/test_ick_walk.c does the same and looks into Redis after each step.
  class Walk
    END_ALL = "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, who) end return 0"

    def initialize(name, random)
      @name = name
      @random = random
      @users = %w[one one two three].first(random.rand(2..4)).map { |consumer| Seriatim::Ick.new(consumer: consumer) }
      @batches = @users.map { [[], 0] } # members, the step of the reserve
      @added = {}
      @done = Hash.new(0)
    end

    def step(number)
      at = @random.rand(@users.size)
      case @random.rand(10)
      when 0..3 then add(@users[at], number)
      when 4..5 then @batches[at] = [members(@users[at].ickreserve(@name, @random.rand(6), backwash: @random.rand(5).zero?)), number]
      when 6..7 then @users[at].ickcommit(@name, processed(at))
      else @batches[at] = [members(@users[at].ickexchange(@name, @random.rand(6), processed(at), backwash: @random.rand(5).zero?)), number]
      end
      end_reservations if @random.rand(32).zero?
    end

    # @return [Array<String>] members that should have been given once more, and were not
    def forgotten
      end_reservations
      last = Seriatim::Ick.new(consumer: "last")
      given = members(last.ickreserve(@name, 100))
      last.ickdel(@name)
      @added.select { |member, step| step > @done[member] }.keys - given
    end

    private

    def members(pairs) = pairs.map(&:first)
    def end_reservations = REDIS.call("EVAL", END_ALL, 1, "seriatim:{/ick/#{@name}}:ends")

    def add(user, number)
      member = "m#{@random.rand(12)}"
      user.ickadd(@name, @random.rand(50), member)
      @added[member] = number
    end

    # The consumer has processed its batch, whatever becomes of the commit.
    def processed(at)
      members, step = @batches[at]
      members.each { |member| @done[member] = [@done[member], step].max }
      @batches[at] = [[], step]
      members
    end
  end

  it "R-ICK-13: gives each member again that was added after the reserve that gave it" do
    random = Random.new(RSpec.configuration.seed)
    walks = Figures.count(3, 500)
    walks.times do |number|
      walk = Walk.new("walk#{number}", random)
      (1..200).each { |step| walk.step(step) }
      expect([random.seed, number, walk.forgotten]).to eq([random.seed, number, []])
    end
    Figures.note("R-ICK-13", "steps of consumers of a set in Ruby, one of them old; members forgotten", "#{walks * 200}; 0")
  end
end
