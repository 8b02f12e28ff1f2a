# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/failover_checker"
require_relative "kit/sentinel_setup"

# The master dies by SIGKILL under load, three sentinels make its replica the master, and the dead one returns as a replica.
RSpec.describe "Failover" do
  include CrashKit

  SETTINGS = { shards_count: 8, max_retry_count: 1_000_000, back_off: 0.05 }.freeze
  PRODUCERS = %w[ruby python lua].freeze
  BULK = 200 # jobs

  before { @house = SentinelSetup.new }
  after { @house&.remove }

  def kit = @kit ||= Kit.new(seed: RSpec.configuration.seed, redis: @house)

  # ---- load

  # Workers of all languages, and producers that push until the file is there. Each number goes again until it is acknowledged.
  def start_load(wait_replicas)
    kit.queue("Failover", **SETTINGS)
    @workers = Kit::LANGUAGES.map { |language| kit.worker(language, lease: 20) }.each(&:wait_until_started)
    @enough = File.join(kit.folder, "enough")
    @producers = PRODUCERS.map { |language| producer(language, wait_replicas) }
    @bulk = Thread.new { push_in_bulk(wait_replicas) }
    kit.eventually { kit.journal.starts.size > 100 && PRODUCERS.all? { |language| pushes.any? { |line| line.id.to_s.start_with?(language) } } }
  end

  def producer(language, wait_replicas)
    workload = { workers: { Failover: SETTINGS }, queue: "Failover", ids: (1..8).map { |number| "#{language}#{number}" },
                 count: 1_000_000, pause: 0.005, until: @enough, seriatim: { wait_replicas: wait_replicas, wait_timeout: 0.3 } }
    commands = Language::ALL.fetch(language)
    variables = { "REDIS_URL" => @house.url, "JOURNAL" => kit.journal.path, "WORKLOAD" => JSON.generate(workload) }
    kit.start(commands.producer, { **commands.variables, **variables })
  end

  # Pushes many jobs a call to a queue without a server: there, losses of a failover are counted most easily.
  def push_in_bulk(wait_replicas)
    Thread.current.report_on_exception = false
    kit.queue("Kept", shards_count: 3)
    @acknowledged = 0
    until File.exist?(@enough)
      begin
        kit["Kept"].perform_async(bulk(@acknowledged + 1), wait_replicas: wait_replicas, wait_timeout: 0.3)
        @acknowledged += 1
      rescue Seriatim::NotReplicated
        next
      end
      sleep 0.02
    end
  end

  def bulk(call) = (1..BULK).map { |number| { id: "#{call}-#{number}" } }

  # Jobs that were acknowledged and do not wait.
  def lost_in_bulk
    (1..@acknowledged).sum { |call| BULK - kit["Kept"].queries.fetch(bulk(call).map { |job| job[:id] }).size }
  end

  def end_load
    FileUtils.touch(@enough)
    @bulk.value
    @producers.each { |producer| expect(producer.wait(120)).to eq(0), producer.log }
    kit.eventually(150, -> { "not drained: #{kit["Failover"].metrics.except(:shards)}" }) do
      kit["Failover"].metrics.values_at(:length, :busy).sum.zero?
    end
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
  end

  # ---- failovers

  # @return [Float] seconds until every worker runs jobs of the new master, which has a replica again
  def fail_over
    sleep 0.3 + kit.random.rand(0.7)
    before = Journal.now
    killed_at = nil
    @house.kill_master do
      killed_at = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
      kit.journal.write(:failover, 0, killed_at)
    end
    @house.mend
    kit.eventually(120, -> { "of #{@workers.map(&:pid)} go on #{at_work(killed_at)}" }) { at_work(killed_at).size == @workers.size }
    Journal.now - before
  end

  # Processes that began what they claimed after that.
  def at_work(microseconds) = kit.journal.starts.select { |line| line.fence > microseconds }.map(&:pid).uniq

  def fail_over_under_load(wait_replicas)
    rounds = Figures.count(2, 15)
    start_load(wait_replicas)
    took = Array.new(rounds) { fail_over }
    end_load
    Figures.note("F6", "failovers with wait_replicas #{wait_replicas}", rounds)
    Figures.note("F6", "seconds until all workers went on, wait_replicas #{wait_replicas}", took.map { |s| s.round(1) }.minmax.join(" to "))
    judge(wait_replicas)
  end

  def judge(wait_replicas)
    verdict = FailoverChecker.new(kit.journal.lines)
    Figures.note("F6", "pushes acknowledged, wait_replicas #{wait_replicas}", pushes.size)
    Figures.note("F6", "lost, wait_replicas #{wait_replicas}", verdict.lost.size)
    Figures.note("F6", "jobs acknowledged in bulk, wait_replicas #{wait_replicas}", @acknowledged * BULK)
    Figures.note("F6", "lost in bulk, wait_replicas #{wait_replicas}", @lost_in_bulk = lost_in_bulk)
    Figures.note("F6", "numbers run more than once, wait_replicas #{wait_replicas}", verdict.repeated.size)
    Figures.note("F6", "runs of forgotten claims, wait_replicas #{wait_replicas}", verdict.late.size)
    expect(kit.leftovers.grep_v(/{Kept/)).to eq([])
    verdict
  end

  def pushes = kit.journal.lines.select { |line| line.kind == "pushed" }

  it "F6 with WAIT 1 no failover loses an acknowledged push, and workers of all languages go on" do
    expect(fail_over_under_load(1).faults).to eq({})
    expect(@lost_in_bulk).to eq(0)
  end

  # What the replica had not heard is gone, and what comes after such a hole is called out of order.
  it "F6 without WAIT a failover may lose pushes, and workers of all languages go on" do
    expect(fail_over_under_load(0).faults.keys - %i[lost reordered]).to eq([])
  end
end
