# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "scheduling" do
  # An id of each shard of a queue.
  def ids_by_shard(worker, per_shard: 1)
    require "zlib"
    (0..).lazy.map(&:to_s).each_with_object(Hash.new { |h, k| h[k] = [] }) do |id, found|
      list = found[Zlib.crc32(id) % worker.shards_count]
      list << id if list.size < per_shard
      break found if found.size == worker.shards_count && found.each_value.all? { |l| l.size == per_shard }
    end
  end

  # All ids lie in Redis before the only thread gets to choose: a first job holds it.
  def order(queue, jobs)
    queue.perform_async(jobs)
    server = serve(queue, threads: 1)
    ids = runs(queue, jobs.size).map { |run| run.payloads.keys.first }
    server.stop
    ids
  end

  # A server with one thread, which is held by a job until all that the block pushes has been claimed ahead (such a server claims two
  # ids a shard); then it chooses. The block returns how many ids it has pushed.
  def held(*workers, **options)
    open, held = Thread::Queue.new, Thread::Queue.new
    gate = worker("Gate", **options) { held << true and open.pop }
    gate.perform_async([{ id: 1 }])
    server = serve(gate, *workers, threads: 1)
    held.pop
    expected = yield
    eventually { server.stats[:claimed] == expected }
    open << true
    server
  end

  it "R-SCHEDULE-1: runs the shard first that waits longest" do
    [0, 1].each do |oldest|
      recorder = worker("A27-#{oldest}", shards_count: 2)
      ids = ids_by_shard(recorder).transform_values(&:first)
      server = held(recorder) do
        [oldest, 1 - oldest].each { |shard| recorder.perform_async([{ id: ids[shard] }]) }
        2
      end
      expect(runs(recorder, 2).map { |run| run.payloads.keys.first }).to eq([ids[oldest], ids[1 - oldest]])
      server.stop
    end
  end

  it "R-SCHEDULE-2: costs Redis and the processor little while it is idle" do
    Seriatim.poll_interval = 1
    server = serve(worker("Idle"))
    expect((1..10).any? { idles?(server) }).to be(true) # a machine may be busy with other things, and the start not be over
  end

  def idles?(server)
    commands, cpu = server.stats[:commands], Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    sleep 2
    commands, cpu = server.stats[:commands] - commands, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu
    commands < 60 && cpu < 0.06 * (ENV["LD_PRELOAD"].to_s.empty? ? 1 : 5)
  end

  it "R-SCHEDULE-3: takes shards in turn with the seq scheduler" do
    Seriatim.build_scheduler = -> { Seriatim.build_seq_scheduler }
    recorder = worker("A28", shards_count: 3)
    ids = ids_by_shard(recorder, per_shard: 2)
    shard_of = ids.flat_map { |shard, list| list.map { |id| [id, shard] } }.to_h
    held(recorder) { recorder.perform_async(ids.values.flatten.map { |id| { id: id } }) and 6 }
    ran = runs(recorder, 6).map { |run| shard_of[run.payloads.keys.first] }
    expect(ran.each_slice(3).map(&:sort)).to eq([[0, 1, 2]] * 2)
  end

  it "R-SCHEDULE-5: runs the shard of the highest priority first with the priority scheduler" do
    Seriatim.build_scheduler = -> { Seriatim.build_priority_scheduler }
    low = worker("Low", shards_count: 1)
    high = worker("High", shards_count: 1, priority: 5)
    held(low, high, priority: 9) { [low, high].each { |queue| queue.perform_async(Array.new(2) { |i| { id: i } }) } and 4 }
    highs, lows = runs(high, 2), runs(low, 2)
    expect(highs.map(&:started).max).to be < lows.map(&:started).min
  end

  it "asks a scheduler of the application's own" do
    seen = Thread::Queue.new
    Seriatim.build_scheduler = lambda do
      ->(candidates) { (seen << candidates) and candidates.max_by(&:index) }
    end
    recorder = worker("Own", shards_count: 3)
    recorder.perform_async(Array.new(20) { |i| { id: i } })
    serve(recorder, threads: 1)
    runs(recorder, 20)
    expect(seen.pop.first).to have_attributes(worker: recorder, index: be_between(0, 2), lag: be >= 0, size: be >= 1)
  end

  it "goes on when a scheduler raises or chooses nothing" do
    calls = 0
    Seriatim.build_scheduler = -> { ->(list) { (calls += 1) == 1 ? raise("no") : (list.first if calls > 3) } }
    recorder = worker("Own")
    recorder.perform_async([{ id: 1 }, { id: 2 }, { id: 3 }])
    serve(recorder, threads: 1)
    runs(recorder, 3)
  end

  it "holds back what an idle server gets, where a scheduler chooses nothing" do
    asked = Thread::Queue.new
    open = false
    Seriatim.build_scheduler = -> { ->(list) { (asked << true) and (list.first if open) } }
    recorder = worker("Held", shards_count: 1)
    server = serve(recorder, threads: 2)
    eventually { server.stats[:shards] == 1 }
    sleep 0.3 # until its threads wait
    recorder.perform_async([{ id: 1 }])
    asked.pop
    sleep 0.3
    expect(recorder.runs).to be_empty
    open = true
    runs(recorder, 1)
  end

  it "calls retries_exhausted while a scheduler chooses nothing" do
    open, fail = true, Thread::Queue.new
    Seriatim.build_scheduler = -> { ->(list) { list.first if open } }
    recorder = worker("Exhausted", shards_count: 1, max_retry_count: 0) { (open = false) or (fail.pop and raise "x") }
    told = Thread::Queue.new
    recorder.define_singleton_method(:retries_exhausted) { |jobs| told << jobs.first[:id] }
    recorder.perform_async([{ id: 1 }, { id: 2 }])
    server = serve(recorder, threads: 1)
    eventually { server.stats.values_at(:running, :claimed) == [1, 1] }
    fail << true
    expect(Timeout.timeout(60) { told.pop }).to eq("1")
    expect(server.stats[:claimed]).to eq(1)
    open = true
    expect(server.stop(30)).to be(true)
  end

  it "shows a scheduler the shards that were added after the start" do
    counts = [0]
    Seriatim.build_scheduler = -> { ->(list) { (counts << list.size) and nil } }
    recorder = worker("Grown", shards_count: 1)
    server = serve(recorder, threads: 5)
    recorder.actions.reshard(5)
    eventually { recorder.metrics[:resharding].nil? && server.stats[:shards] == 5 }
    recorder.perform_async(Array.new(50) { |i| { id: i } })
    eventually { counts.max == 5 }
  end

  # What the scheduler chose last before each delivery, and the shard that ran then.
  def chosen_and_run(&change)
    chosen = []
    Seriatim.build_scheduler = -> { ->(list) { change.call(list).tap { |candidate| chosen << candidate.index } } }
    recorder = worker("Chooser", shards_count: 3)
    ran = order(recorder, ids_by_shard(recorder, per_shard: 2).values.flatten.map { |id| { id: id } })
    [chosen.first(ran.size), ran.map { |id| Zlib.crc32(id) % 3 }]
  end

  {
    "sorts its list" => ->(list) { list.sort_by! { |candidate| -candidate.index }.first },
    "reverses its list" => ->(list) { list.reverse!.first },
    "removes from its list" => ->(list) { list.reject! { |candidate| candidate.index.zero? && list.size > 1 } && nil || list.first },
    "shifts its list" => ->(list) { list.shift if list.size > 1; list.first },
    "pops from its list" => ->(list) { list.pop },
    "empties its list" => ->(list) { list.last.tap { list.clear } },
    "gives a copy of a candidate" => ->(list) { list.last.dup.tap { list.clear } },
    "writes to a candidate" => ->(list) { list.last.tap { |candidate| candidate.lag = -1.0 } }
  }.each do |name, change|
    it "runs the shard that a scheduler chose which #{name}" do
      chosen, ran = chosen_and_run(&change)
      expect(ran).to eq(chosen)
      expect(ran.uniq).to contain_exactly(0, 1, 2)
      expect(@log.string).not_to include("the scheduler")
    end
  end

  {
    "a number" => [-> { 5 }, "chose 5 (Integer), which is not one of its candidates"],
    "false" => [-> { false }, "chose false (FalseClass), which is not one of its candidates"],
    "another shard" => [-> { Seriatim::Schedulers::Candidate.new(nil, 7, 0, 0) }, "which is not one of its candidates"],
    "an error" => [-> { raise "no" }, "the scheduler raised RuntimeError: no"]
  }.each do |name, (choice, said)|
    it "logs once that a scheduler gave #{name}, and takes the oldest" do
      Seriatim.build_scheduler = -> { ->(_) { choice.call } }
      recorder = worker("Junk", shards_count: 3)
      order(recorder, Array.new(10) { |i| { id: i } })
      expect(@log.string.scan(/ERROR .*the scheduler .*/)).to contain_exactly(a_string_including(said, "; the oldest goes first"))
    end
  end

  it "gives each group of a splitter of the application's own a thread" do
    threads = Thread::Queue.new
    recorder = worker("Groups", shards_count: 4) { (threads << Thread.current) and sleep(0.05) }
    Seriatim.build_splitter = -> { ->(shards) { [shards.first(1), [], shards.drop(1)] } }
    recorder.perform_async(Array.new(12) { |i| { id: i } })
    serve(recorder)
    runs(recorder, 12)
    expect(Array.new(threads.size) { threads.pop }.uniq.size).to eq(2)
  end

  it "shares a queue between two servers, and gives all of it to one when the other stops" do
    recorder = worker("Shared", shards_count: 8)
    first, second = Array.new(2) { serve(recorder) }
    eventually { [first, second].map { |server| server.stats[:shards] } == [4, 4] }
    first.stop
    eventually { second.stats[:shards] == 8 }
  end
end
