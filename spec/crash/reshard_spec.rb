# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/failover_checker"
require_relative "kit/mutant"
require_relative "kit/reshard_points"
require_relative "kit/reshard_storm"
require_relative "kit/sentinel_setup"

# Queues get other numbers of shards while jobs are pushed and run, and while servers and the command that began it are killed.
RSpec.describe "A queue that gets another number of shards" do
  include CrashKit

  LIMIT = Figures.count(1_500, 3_600)
  NUMBERS = Figures.count([16, 3], [16, 3] * 4) # of shards; 5 at first
  LONG = Figures.count(2, 60) # seconds of a run
  PATIENCE = Figures.count(150, 600)

  def storm(**options)
    @storm = ReshardStorm.new(kit, shards: 5, ids: Figures.count(100, 25_000), payloads: Figures.count(1_000, 100_000), **options)
  end

  # @return [Array<String>] what is stored otherwise than before the moves
  def move(numbers, **options, &meanwhile)
    before = @storm.kept.stored
    @storm.start_pushing(long: LONG)
    @storm.reshard(numbers, **options, &meanwhile)
    @storm.stop_pushing
    KeptJobs.differences(before, @storm.kept.stored)
  end

  def expect_all_to_run(checker)
    @storm.kept.release(PATIENCE)
    kit.drain(PATIENCE)
    expect(@storm.stop_servers).to all(eq(0)), @storm.logs.inspect
    verdict = checker.new(kit.journal.lines)
    expect(verdict.faults).to eq({})
    expect(kit.leftovers).to eq([])
    verdict
  end

  def figures(name, verdict)
    Figures.note("F39", "#{name}: moves, servers killed, commands cut short", [@storm.moves, @storm.killed, @storm.cut_short].join(", "))
    Figures.note("F39", "#{name}: pushes, runs", [kit.journal.lines.count { |line| line.kind == "pushed" }, verdict.begun].join(", "))
    Figures.note("F39", "#{name}: lost, out of order, concurrent", [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
    Figures.note("F39", "#{name}: numbers that began again", verdict.repeated.size)
    Figures.note("F39", "#{name}: overtaken runs", verdict.late.size)
  end

  it "F39, F1 keeps what is stored, and runs each job once and in order, while a server dies each second", limit: LIMIT do
    kit.watch_leases
    storm(lease: 1)
    expect(move(NUMBERS, kill_every: 1)).to eq([])
    verdict = expect_all_to_run(Checker)
    figures("storm", verdict)
    expect([@storm.killed, @storm.cut_short]).to all(be > 0)
  end

  it "F39, F1 ends its move wherever the command or a server dies", limit: LIMIT do
    each = Figures.count(1, 10)
    kit.watch_leases
    points = ReshardPoints.new(kit, lanes: 4, ids: 60, payloads: 1_200)
    points.run(ReshardPoints::POINTS * each)
    expect(points.missed).to eq([])
    expect(points.changed).to eq([])
    points.release
    expect_all_well
    Figures.note("F39", "SIGKILLs at the calls of a move", points.died)
  end

  # Behind each new layout the master dies, and what its replica lacked is forgotten.
  it "F39, F6 loses no acknowledged push when the master dies while its ids move", limit: LIMIT do
    house = SentinelSetup.new
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: house)
    storm(lease: 15, replicated: true)
    house.await_replica
    changed = move(Figures.count([16], NUMBERS), kill_every: Figures.count(nil, 5)) do
      sleep kit.random.rand(0.5)
      house.kill_master { kit.journal.write(:failover, 0, Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)) }
      house.mend
    end
    expect(changed).to eq([])
    figures("failovers", expect_all_to_run(FailoverChecker))
  ensure
    house&.remove
  end

  # The servers of both controls: a batch is taken in whenever it comes, and ids leave while they run.
  def careless
    Mutant.build("worker", "scripts/reshard/arrive.lua" => [["local is_again = sequence > 0 and", "local is_again = false and"]],
                           "scripts/reshard/depart.lua" => [["  if runs[i] then", "  if false then"]])
  end

  it "F39 control: a batch that is taken in twice is seen" do
    points = ReshardPoints.new(kit, lanes: 1, ids: 60, payloads: 10, program: careless)
    points.run([[:server, "departed", :before]])
    expect(points.changed).not_to eq([])
  end

  it "F39 control: an id that leaves while it runs is seen" do
    kit.queue("Taken", shards_count: 5)
    kit.push("Taken", (1..20).map { |number| "id#{number}" }, 1, sleep: 60)
    kit.worker("c", program: careless, threads: 40)
    kit.eventually { kit.journal.starts.size == 20 }
    kit.reshard("Taken", 16).wait
    kit.eventually { kit.verdict.concurrent.any? }
  end
end
