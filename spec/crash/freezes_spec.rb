# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/freezes"
require_relative "kit/storm"

RSpec.describe "Freezes and rolling deploys" do
  include CrashKit

  SLOW = ->(random) { { sleep: (0.002 + random.rand(0.02)).round(4) } }

  def stop_all(workers)
    workers.each { |worker| worker.signal(:TERM) }
    expect(workers.map { |worker| worker.wait(100) }).to all(eq(0))
  end

  it "F2 a worker frozen for three lease times changes nothing when it goes on" do
    lease = 0.4
    kit.queue("Pauses", shards_count: 24, batch_size: 2, back_off: 0.05, max_retry_count: 1_000)
    kit.watch_leases
    workers = (Kit::LANGUAGES * 2).map { |language| kit.worker(language, lease: lease, threads: 3, poll: 0.2) }
    workers.each(&:wait_until_started)
    storm = Storm.new(kit, "Pauses", (1..200).map { |number| "id#{number}" }, payload: SLOW)
    pauses = storm.during { Freezes.new(kit, "Pauses", workers, lease: lease, at_once: 4, in_a_run: true).run(Figures.count(20, 40)) }
    kit.drain
    stop_all(workers)
    verdict = expect_all_well
    Figures.note("F2", "freezes of three lease times", pauses)
    Figures.note("F2", "runs that ended too late", verdict.void.size)
    Figures.note("F2", "settles refused", kit.refused)
    Figures.note("F2", "lost, reordered, concurrent", [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
    expect(kit.journal.lines.count { |line| line.kind == "lapsed" }).to be >= pauses
    expect(verdict.void.size).to be >= pauses
    expect(kit.refused).to be >= verdict.void.size
  end

  it "F5 workers come and go ten times a second, and nothing runs twice" do
    seconds = Figures.count(10, 60)
    kit.queue("Deploys", shards_count: 16, batch_size: 2)
    kit.watch_leases
    languages = Kit::LANGUAGES.cycle
    storm = Storm.new(kit, "Deploys", (1..200).map { |number| "id#{number}" })
    leaving = []
    storm.during do
      serving = Array.new(4) { kit.worker(languages.next, lease: 3) }
      deadline = Journal.now + seconds
      while Journal.now < deadline
        serving << kit.worker(languages.next, lease: 3)
        serving.first.wait_until_started
        leaving << serving.shift.tap { |worker| worker.signal(:TERM) }
        sleep 0.1
      end
      serving.each(&:wait_until_started).each { |worker| worker.signal(:TERM) }
      leaving.concat(serving)
    end
    leaving.each { |worker| expect(worker.wait(100)).to eq(0), worker.log }
    last = kit.worker("c", lease: 3)
    kit.drain
    expect(last.stop).to eq(0)
    verdict = expect_all_well
    Figures.note("F5", "workers started and stopped in #{seconds} s", leaving.size)
    Figures.note("F5", "runs", verdict.begun)
    Figures.note("F5", "numbers that began again", verdict.repeated.size)
    expect(verdict.strict_faults).to eq({}) if kit.journal.lines.none? { |line| line.kind == "lapsed" } # a busy machine may give no time for a lease
  end
end
