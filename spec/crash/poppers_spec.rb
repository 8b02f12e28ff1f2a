# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/mutant"
require_relative "kit/storm"

# Poppers beside servers on one queue, all of C, killed by SIGKILL. A popper has no heartbeat: the id of a dead one comes back when its
# time to run is over.
RSpec.describe "poppers" do
  include CrashKit

  SETTINGS = { shards_count: 12, batch_size: 2, max_retry_count: 1_000_000, back_off: 0.02 }.freeze
  POINTS = %w[popped perform_during acknowledge acknowledged].freeze
  TTR = 4 # seconds; an order of magnitude more than what a run takes, also on a busy machine

  def popper(die: nil)
    kit.start([CProgram.build("popper", CProgram::CORE), "Pulled", TTR, 3], { "REDIS_URL" => kit.redis.url, "JOURNAL" => kit.journal.path, "DIE" => die.to_s })
  end

  def server(**options) = kit.worker("c", lease: 0.3 + kit.random.rand(0.3), threads: 3, **options)

  def finish
    last = [server, popper]
    kit.drain(Figures.count(150, 300))
    last.each { |process| expect(process.stop).to eq(0) }
    expect_all_well
  end

  # Kills one of the processes and starts another like it.
  def replace(processes)
    index = kit.random.rand(processes.size)
    process, make = processes[index]
    process.kill
    processes[index] = [make.call, make]
  end

  it "F1 poppers and servers share a queue while both are killed at random", limit: Figures.count(600, 7_200) do
    kit.queue("Pulled", **SETTINGS)
    kit.watch_leases
    storm = Storm.new(kit, "Pulled", (1..100).map { |number| "id#{number}" })
    processes = ([-> { popper }] * 4 + [-> { server }] * 3).map { |make| [make.call, make] }
    kills = Figures.count(150, 2_000)
    storm.during do
      kills.times do
        sleep 0.02 + kit.random.rand(0.05)
        replace(processes)
      end
      processes.each { |process, _| process.kill }
    end
    verdict = finish
    Figures.note("F1", "poppers and servers: random SIGKILLs", kills)
    Figures.note("F1", "poppers and servers: runs, died in a run", [verdict.begun, verdict.cut_short].join(", "))
  end

  it "F1 poppers are killed at each of four points", limit: Figures.count(400, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    storm = Storm.new(kit, "Pulled", (1..60).map { |number| "id#{number}" })
    storm.during do
      Figures.count(4, 50).times do
        dying = POINTS.map { |point| popper(die: "#{point}:#{1 + kit.random.rand(5)}") }
        dying.each { |process| expect(process.wait).to be_nil }
      end
    end
    expect(finish.cut_short).to be_positive
  end

  # The control: a new owner of a shard takes the runs of poppers for those of the dead owner.
  it "F1 the checker fails when a recovery gives away what a popper runs" do
    mutant = Mutant.build("worker", "scripts/server/recover.lua" => [[" and mode ~= RUN_POPPED and ", " and "]])
    kit.queue("Pulled", **SETTINGS)
    # So few ids that one that is given away begins at once: behind many others it would begin after its popper had ended.
    storm = Storm.new(kit, "Pulled", (1..6).map { |number| "id#{number}" }, payload: ->(_) { { sleep: 1 } })
    poppers = Array.new(4) { popper }
    owner = server(nodes: 1, program: mutant)
    storm.during do
      10.times do # until a popper was running an id when the new owner recovered its shard
        owner.kill
        owner = server(nodes: 1, program: mutant)
        break if 40.times.any? { sleep(0.2) && kit.verdict.faults.key?(:concurrent) }
      end
      sleep 1
    end
    (poppers << owner).each(&:kill)
    Figures.note("F1", "control: recovery of what a popper runs", kit.verdict.faults.transform_values(&:first).inspect)
    expect(kit.verdict.faults.keys).to include(:concurrent)
  end
end
