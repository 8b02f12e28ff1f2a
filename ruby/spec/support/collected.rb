# frozen_string_literal: true

# Every native object at work while the collector runs at each allocation, then while it moves objects about.
# A process of its own: each collection of a small heap is quick. ARGV: URL of a Redis, folder for a private one.
require "seriatim"

NATIVE = Seriatim.module_eval { const_get(:Native) }
URL, FOLDER = ARGV
MOVES = ENV["LD_PRELOAD"].to_s.empty? && GC.respond_to?(:verify_compaction_references)

# Uses one object of each type, again and again.
class Collected
  SETTINGS = { queue_name: "Collected", shards_count: 2, batch_size: 5, fold: :merge, on_waiting: "keep" }.freeze

  def initialize
    @link = NATIVE::Link.new(URL, "gc", "gc", 0, nil)
    @queue = @link.queue(SETTINGS.transform_values(&:dup))
    @runner = NATIVE::Runner.new(URL, "gc", nil, "gc-#{Process.pid}", "text", 10_000, 100, 2, 0)
    @runner.worker(SETTINGS)
    @group = @runner.group(0, [[0, 0], [0, 1]])
    @runner.start
  end

  # Yields while it holds a delivery.
  def use
    push
    ask
    take do |delivery|
      yield if block_given?
      run(delivery)
    end
    @runner.stats
    @runner.pulse
  end

  def refuse
    [-> { @link.queue({}) }, -> { @link.push(@queue, [[1]], nil, 0, 1, 10) }, -> { @link.query(@queue, "unknown", false, nil, nil, 1, -1, nil, nil) },
     -> { NATIVE::Link.new("http://x", "gc", nil, 0, nil) }, -> { @runner.group(0, [[9, 9]]) }, -> { NATIVE.dump([Object.new], "p") },
     -> { NATIVE.load("[[1,") }].each do |wrong|
      wrong.call
      abort "was not refused"
    rescue ArgumentError, Seriatim::Error
      nil
    end
  end

  def close
    @runner.stop
    sleep 0.01 until @runner.stopped?
    @runner.close
    @link.close
  end

  private

  def push
    jobs = Array.new(3) { |i| { id: "id#{i}", payload: { n: 1 }, score: 3/2r, on_waiting: :earlier, context: { k: "v" } } }
    counts = @link.push(@queue, jobs, nil, 0, 1.0, 10)
    abort "pushed #{counts}" unless counts.first(2).sum == 3
  end

  def ask
    @link.layout(@queue, nil)
    records = @link.query(@queue, "range_by_id", false, "-", "+", 10, -1, nil, nil)
    abort "asked #{records}" unless records.all? { |record| record[:id].start_with?("id") }
    @link.query(@queue, "range_by_id", true, nil, nil, 10, 0, nil, nil)
    @link.metrics(@queue, nil)
    @link.explain(@queue, "id0", nil)
    @link.check(@queue, false, nil)
    @link.action(@queue, "perform_all_jobs_now", nil, nil)
    [@link.nodes(nil), @link.queues(nil), @link.health(nil), @link.url]
  end

  # All three ids, in as many deliveries as there are.
  def take
    left = %w[id0 id1 id2]
    until left.empty?
      @runner.pulse # the collector may make a round longer than the lease
      @runner.candidates(@group, 5)
      delivery = @runner.take(@group)
      delivery.is_a?(NATIVE::Delivery) ? left -= yield(delivery) : @runner.wait(@group, 0.1)
      @runner.event
    end
  end

  def run(delivery)
    [delivery.kind, delivery.worker, delivery.shard]
    ids = delivery.payloads_by_id
    abort "took #{ids}" unless ids.values.flatten.uniq == [{ "n" => 1 }]
    delivery.size.times { |place| settle(delivery, place) }
    @runner.settle(delivery)
    ids.keys
  end

  def settle(delivery, place)
    id, _fence, _retry_count, _due, _error, payloads = delivery.job(place)
    abort "took #{payloads}" unless payloads == [['{"n":1}', 1.5, '{"k":"v"}']]
    case id
    when "id0" then delivery.fail(place, "failed", 0.0)
    when "id1" then delivery.reject(place, [0], "rejected")
    else delivery.done_all
    end
    delivery.done(place)
  end
end

# Calls whose Strings only an Array or a Hash refers to, while collections move them.
class Moved
  # A number whose conversion allocates.
  class Allocating < Numeric
    def to_f = Array.new(3) { Object.new }.size / 2.0
  end

  def initialize
    @link = NATIVE::Link.new(URL, "moved", nil, 0, nil)
  end

  def use
    moving(-> { [settings, request] }) do |settings, request|
      status, = @link.web(settings, request, nil, nil, [], nil)
      abort "answered #{status}" unless status == 200
    end
    moving(-> { [[["ickadd".dup, "set".dup, 0, 0, false, %w[a b c].map(&:dup), [1, 2, 3]]]] }) { |calls| @link.ick("consumer", 10.0, calls, nil) }
    moving(-> { [[["ickstats".dup, "set".dup, 0, 0, false, [], nil]]] }) do |calls|
      stats = @link.ick("consumer", 10.0, calls, nil).dig(0, 6)
      abort "counted #{stats}" unless stats&.values_at("key", "total_size") == ["set", 3]
    end
    number = moving(-> { [{ queue_name: "Moved".dup, on_waiting: "earlier".dup, ttr: Allocating.new }] }) { |settings| @link.queue(settings) }
    @link.layout(number, nil)
    abort "named #{@link.queues(nil)}" unless @link.queues(nil) == ["Moved"]
  end

  private

  def settings = ["title".dup, false, ["a.test".dup], nil, nil, %w[Worker queue].map(&:dup), false]
  def request = ["GET", "/p", "/api/v1/stats", "", "a.test", *Array.new(5), "gzip", ""].map(&:dup) + [false, 3, 0, 0, 0]

  # The arguments lie behind garbage, whose places they take at a collection.
  def moving(arguments)
    GC.disable
    20_000.times { Object.new }
    made = arguments.call
    GC.enable
    GC.auto_compact = GC.stress = true
    yield(*made)
  ensure
    GC.auto_compact = GC.stress = false
  end
end

# Objects that nothing holds, and a private Redis.
def strew
  NATIVE::Link.new(URL, "gc", nil, 0, nil)
  NATIVE::Runner.new(URL, "gc", nil, "strewn", "", 1000, 1000, 1, 0)
  NATIVE.load(NATIVE.dump({ "a" => [1, "x" * 50, { "b" => 2**62 }], c: nil }, "p"))
  redis = NATIVE::PrivateRedis.new(FOLDER)
  [redis.url, redis.started?]
  redis.release
end

def move
  GC.verify_compaction_references(toward: :empty, double_heap: true)
  GC.compact
end

collected = Collected.new
collected.use
GC.stress = true
collected.use
collected.refuse
strew
GC.stress = false
3.times do
  collected.use { move } if MOVES
  collected.refuse
end
GC.auto_compact = true if MOVES
20.times { collected.use }
collected.close
puts "collected #{GC.count} times, moved #{MOVES ? GC.latest_compact_info[:moved].values.sum : 0}"
3.times { Moved.new.use } if MOVES
