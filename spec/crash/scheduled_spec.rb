# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/scheduled_storm"

# Payloads for later in a storm: servers in three languages that are killed, and operators who change what is scheduled and what waits.
RSpec.describe "Scheduled payloads" do
  include CrashKit

  SETTINGS = { shards_count: 6, batch_size: 5, fold: "list", max_retry_count: 1_000_000, back_off: 0.05 }.freeze
  LANGUAGES = %w[ruby python lua].freeze

  def start(language) = @servers << kit.worker(language, lease: 1, poll: 0.2, threads: 4)

  # A server in the language of the oldest begins, and that one dies.
  def kill_one
    start(@languages.next)
    @servers.shift.kill
  end

  # Of a paused queue all that comes due is moved into its ids, and nothing runs.
  def expect_moved_and_kept
    paused = kit["Paused"]
    kit.eventually { paused.metrics[:scheduled].zero? }
    expect(paused.metrics[:length]).to eq(50)
    expect(kit.journal.starts("Paused")).to eq([])
    paused.actions.resume
  end

  # @return [Array<Hash>] one job for each of 50 ids
  def pushed_to_paused
    kit["Paused"].actions.pause
    jobs = (1..50).map { |number| { id: number.to_s, payload: { n: 1 }, deliver_in: 1 + (number / 50.0) } }
    kit["Paused"].perform_async(jobs)
    kit.journal.pushed_to("Paused", jobs.map { |job| job[:id] }, [1])
  end

  def figures(storm, verdict)
    late = verdict.lateness { |payload| !storm.ever_parked?(payload.id) }
    Figures.note("F1", "payloads scheduled 1 to 5 s ahead, servers killed", "#{storm.payloads.size}, #{storm.killed}")
    Figures.note("F1", "of them changed meanwhile", storm.done.map { |name, count| "#{count} #{name}" }.join(", "))
    Figures.note("F1", "early, out of order, lost, run though cancelled, repeated",
                 [verdict.early, verdict.disordered, verdict.lost, verdict.revived, verdict.repeated].map(&:size).join(", "))
    Figures.note("F1", "lateness p50, p99 beside the kills, s", [0.5, 0.99].map { |share| late[(late.size * share).to_i].round(3) }.join(", "))
  end

  # What the verdict must see: payloads and lines as they would be if this had gone wrong.
  WRONG = {
    early: ->(payloads, _) { payloads.each { |payload| payload.at += 1_000 } },
    disordered: ->(payloads, _) { payloads.each { |payload| payload.at -= payload.number } },
    lost: ->(_, lines) { lines.reject! { |line| line.kind == "end" } },
    revived: ->(payloads, _) { payloads.each { |payload| payload.cancelled = 0.0 } },
    repeated: ->(_, lines) { lines.concat(lines.reject { |line| line.kind == "killed" }).reject! { |line| line.kind == "killed" } },
    invented: ->(payloads, _) { payloads.pop(payloads.size / 2) }
  }.freeze

  def expect_wrong_to_be_seen(payloads, lines)
    WRONG.each do |fault, change|
      wrong = [payloads.map(&:dup), lines.dup]
      change.call(*wrong)
      expect(ScheduledVerdict.new(*wrong).faults).to include(fault)
    end
  end

  it "F1, R-CRASH-7 servers are killed while payloads arrive, are cancelled, rescheduled, parked and deleted", limit: Figures.count(1_500, 3_600) do
    kit.queue("Storm", **SETTINGS)
    kit.queue("Paused", shards_count: 2, fold: "list")
    kit.watch_leases
    @servers = []
    @languages = LANGUAGES.cycle
    3.times { start(@languages.next) }
    @servers.each(&:wait_until_started)
    pushed_to_paused
    ids = (1..Figures.count(100, 500)).map { |number| "id#{number}" }
    storm = ScheduledStorm.new(kit, "Storm", ids: ids, count: Figures.count(2_000, 10_000), kill: method(:kill_one))
    storm.run(actions: Figures.count(1_200, 6_000), kills: Figures.count(6, 40), seconds: Figures.count(6, 60))
    expect_moved_and_kept
    kit.drain
    @servers.each { |server| expect(server.stop).to eq(0), server.log }
    lines = kit.journal.lines
    of_storm = lines.select { |line| [nil, "Storm"].include?(line.queue) }
    verdict = ScheduledVerdict.new(storm.payloads, of_storm)
    figures(storm, verdict)
    expect(verdict.faults).to eq({})
    expect_wrong_to_be_seen(storm.payloads, of_storm)
    expect(Checker.new(lines).faults.slice(:concurrent, :unfenced)).to eq({})
    expect(kit.journal.ends("Paused").flat_map(&:numbers).size).to be >= 50
    expect(storm.done.values_at(:cancel, :reschedule, :park, :unpark, :delete)).to all(be > 0)
    expect(kit.leftovers).to eq([])
  end
end
