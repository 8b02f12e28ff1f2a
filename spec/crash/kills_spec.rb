# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/hand_over_points"
require_relative "kit/storm"

# Workers of C, Ruby, Python and Lua on one queue, killed by SIGKILL: at any instruction, and at named ones.
RSpec.describe "SIGKILL" do
  include CrashKit

  # Languages by how often they are started.
  WEIGHTS = { "c" => 4, "ruby" => 2, "python" => 2, "lua" => 2 }.flat_map { |language, weight| [language] * weight }.freeze
  LIMIT = Figures.count(2_400, 7_200)
  SETTINGS = { batch_size: 2, max_retry_count: 1_000_000, back_off: 0.02 }.freeze

  def figures(what, kills, verdict, storm)
    Figures.note("F1", what, kills)
    Figures.note("F1", "#{what}: runs", verdict.begun)
    Figures.note("F1", "#{what}: died in a run", verdict.cut_short)
    Figures.note("F1", "#{what}: numbers that began again", verdict.repeated.size)
    Figures.note("F1", "#{what}: lost, reordered, concurrent",
                 [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
    Figures.note("F1", "#{what}: overtaken after a lapsed heartbeat", verdict.late.size)
    Figures.note("F3", "#{what}: SCRIPT FLUSH", storm.flushes)
  end

  # A slow machine is given time to begin something before the next process dies.
  def wait_for_a_run
    deadline = Journal.now + 0.2
    sleep 0.001 while File.size(kit.journal.path) == @size && Journal.now < deadline
    @size = File.size(kit.journal.path)
  end

  def finish(queue)
    last = Kit::LANGUAGES.map { |language| kit.worker(language, lease: 1) }
    kit.drain(Figures.count(150, 300))
    last.each { |worker| expect(worker.stop).to eq(0) }
    verdict = expect_all_well
    expect(kit[queue].metrics[:morgue_length]).to eq(0)
    verdict
  end

  it "F1, F3 workers of all languages are killed at random while Redis forgets its scripts", limit: LIMIT do
    kills = Figures.count(250, 10_000)
    kit.queue("Random", shards_count: 48, **SETTINGS)
    kit.watch_leases
    storm = Storm.new(kit, "Random", (1..400).map { |number| "id#{number}" }, payload: ->(random) { { sleep: random.rand(0.05).round(4) } }) # so more die in a run
    start = lambda do
      kit.worker(WEIGHTS.sample(random: kit.random), lease: 0.2 + kit.random.rand(0.2), threads: kit.random.rand(1..6),
                 nodes: kit.random.rand(3).zero? ? nil : 1)
    end
    storm.during do
      8.times { start.call }
      kills.times do
        sleep kit.random.rand(0.02)
        wait_for_a_run
        kit.living.sample(random: kit.random).kill
        start.call
      end
      kit.living.each(&:kill)
    end
    figures("random SIGKILLs", kills, finish("Random"), storm)
  end

  it "F1, F3 workers of all languages are killed at each of eight points", limit: LIMIT do
    each = Figures.count(40, 1_000)
    kit.queue("Stepped", shards_count: 96, **SETTINGS)
    kit.watch_leases
    storm = Storm.new(kit, "Stepped")
    steps = KillPoints.new(kit, "Stepped", lanes: 48)
    storm.during(pushes: false) { steps.run(each, WEIGHTS.shuffle(random: kit.random)) }
    verdict = finish("Stepped")
    figures("stepped SIGKILLs", steps.died.values.sum, verdict, storm)
    KillPoints::POINTS.each { |point| Figures.note("F1", "stepped SIGKILLs: #{point}", steps.died[point]) }
    expect(steps.missed).to eq([])
  end

  it "F1 workers are killed before they hear of what pushes have claimed for them", limit: LIMIT do
    each = Figures.count(25, 1_000)
    kit.queue("Handed", shards_count: 32, **SETTINGS)
    kit.watch_leases
    points = HandOverPoints.new(kit, "Handed", lanes: 16)
    points.run(each, WEIGHTS.shuffle(random: kit.random))
    verdict = finish("Handed")
    Figures.note("F1", "SIGKILLs between a push that has claimed and its message", points.died.values.sum)
    Figures.note("F1", "SIGKILLs between a push that has claimed and its message: numbers that began again", verdict.repeated.size)
    expect(points.missed).to eq([])
  end

  # Payloads of an id that failed and payloads that came while it ran become one list, some at a time, by calls of recover.lua.
  # Thousands of them need several calls, and the worker dies between two of these or in one.
  it "F1 workers are killed while they unite the payloads of an id", limit: LIMIT do
    rounds = Figures.count(6, 120)
    kit.queue("Uniting", shards_count: 1, fold: "list", max_retry_count: 1_000_000, back_off: 0.01)
    works = File.join(kit.folder, "works")
    proxy = Proxy.new(kit.redis.socket)
    push_more(sleep: 0.2, fail: works, count: 1) # each run begins with this payload, so that it lasts
    push_more(fail: works)
    left_uniting = Array.new(rounds) { die_uniting(proxy, works) }.count(true)
    proxy.stop
    FileUtils.touch(works)
    last = kit.worker("ruby", lease: 1)
    kit.drain
    expect(last.stop).to eq(0)
    expect_all_well
    expect(left_uniting).to be > 0
    Figures.note("F1", "SIGKILLs in calls that unite payloads: rounds, died with the id uniting", "#{rounds}, #{left_uniting}")
  end

  # A worker runs the id, which fails; each time more is pushed meanwhile. It dies in one of its next calls of recover.lua.
  # @return [Boolean] was the id uniting when the worker was dead?
  def die_uniting(proxy, works)
    proxy.rule = Proxy::Rule.new(step: Proxy::Step.new(script: "recover", moment: %i[before sent answered].sample(random: kit.random), nth: kit.random.rand(2..9)))
    worker = kit.worker("ruby", lease: 0.3, poll: 0.1, threads: 1, url: proxy.url)
    runs = 0
    kit.eventually(200, -> { worker.log.lines.last(3).join }) do
      begun = kit.journal.starts("Uniting").count { |line| line.pid == worker.pid }
      push_more(fail: works) if begun > runs
      runs = begun
      !worker.alive?
    end
    kit.redis.call("ZCARD", "seriatim:{Uniting/0}:uniting") != "0"
  end

  def push_more(count: 1500, **payload)
    from = (@pushed ||= 0) + 1
    kit.push("Uniting", ["one"], (from..@pushed += count).to_a, **payload)
  end
end
