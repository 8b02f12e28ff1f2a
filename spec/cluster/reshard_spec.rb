# frozen_string_literal: true

require_relative "../crash/kit/reshard_storm"
require_relative "cluster_load"

# Queues get other numbers of shards, which lie on all masters, while masters are replaced.
RSpec.describe "A queue of a Redis Cluster that gets another number of shards" do
  include ClusterLoad

  NUMBERS = Figures.count([16], [16, 3] * 4) # of shards; 5 at first

  before { with_redis(redis: ClusterSetup) }

  # In turn: a master that dies, and one that is replaced by command.
  def replace_one(number)
    sleep kit.random.rand(0.5)
    number == 16 ? replace_master(:kill, :restart, ReshardStorm::BUSY, 16) : fail_over
  end

  it "F39, F38 loses no acknowledged push while its ids move and masters are replaced", limit: Figures.count(400, 3_600) do
    storm = ReshardStorm.new(kit, shards: 5, lease: ClusterLoad::LEASE, ids: Figures.count(100, 2_500), payloads: Figures.count(1_000, 10_000), replicated: true)
    cluster.await_replicas
    before = storm.kept.stored
    storm.start_pushing(long: 2)
    storm.reshard(NUMBERS, kill_every: Figures.count(nil, 5)) { |number| replace_one(number) }
    storm.stop_pushing
    expect(KeptJobs.differences(before, storm.kept.stored)).to eq([])
    storm.kept.release(150)
    kit.drain(150)
    expect(storm.stop_servers).to all(eq(0)), storm.logs.inspect
    expect(kit.leftovers).to eq([])
    verdict = ClusterChecker.new(kit.journal.lines, 16, 5, 3)
    Figures.note("F39", "cluster: moves, servers killed, commands cut short", [storm.moves, storm.killed, storm.cut_short].join(", "))
    Figures.note("F39", "cluster: runs, lost, out of order, concurrent", [verdict.begun, verdict.lost.size, verdict.reordered.size, verdict.concurrent.size].join(", "))
    Figures.note("F39", "cluster: overlaps, of forgotten claims only", verdict.late.size)
    expect(verdict.faults).to eq({})
  end
end
