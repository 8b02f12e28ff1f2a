# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/mutant"
require_relative "kit/sentinel_setup"

# Redis is away for two lease times while long jobs run in four servers of three languages, of which none is killed or frozen. A
# fifth server starts meanwhile. No job may run twice, at once or later, or count as one whose process died.
RSpec.describe "Redis away" do
  include CrashKit

  LEASE = 4
  AWAY = 2 * LEASE
  JOB = Figures.count(9, 16) # seconds; longer than AWAY
  IDS = (1..16).map { |number| "id#{number}" }
  FLEET = %w[ruby ruby python lua].freeze
  # The line of the core that the control removes: without it a job runs twice.
  BLIND = { "scripts/server/heartbeat.lua" => [["if not last or math.abs(now - last) > shortest / 2 then", "if false then"]] }.freeze

  after { @house&.remove }

  def start(fleet, **options)
    kit.queue("Away", shards_count: 8, max_retry_count: 5)
    @round = 0
    @workers = fleet.map { |language| kit.worker(language, lease: LEASE, **options) }.each(&:wait_until_started)
    kit.eventually { kit.owners("Away").size == @workers.size } # a shard stays where an id of it runs
  end

  # Returns when at least half of the ids run, in every server.
  def begin_round(seconds)
    kit.push("Away", IDS, @round += 1, sleep: seconds)
    kit.eventually(120, -> { "the jobs of round #{@round} do not begin" }) do
      begun = kit.journal.starts.select { |line| line.numbers.include?(@round) }
      begun.size >= IDS.size / 2 && begun.map(&:pid).uniq.size == @workers.size
    end
  end

  def round
    begin_round(JOB)
    yield -> { @newcomer = kit.worker("c", lease: LEASE) }
    kit.drain(120)
    expect(@newcomer.stop).to eq(0), @newcomer.log
  end

  def judge(kind, rounds)
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    verdict = kit.verdict
    metrics = kit["Away"].metrics
    Figures.note("F36", "outages of #{AWAY} s (#{kind}), lease #{LEASE} s, jobs of #{JOB} s", rounds)
    Figures.note("F36", "runs, of them repeated (#{kind})", "#{verdict.begun}, #{verdict.repeated.size}")
    expect(verdict.strict_faults).to eq({})
    expect(metrics.values_at(:morgue_length, :refused, :failed)).to eq([0, 0, 0])
    expect(kit.leftovers).to eq([])
  end

  def warned = @workers.count { |worker| worker.log.include?("no node renewed its heartbeat for") }

  # ---- how Redis goes

  def killed(newcomer)
    kit.redis.stop(:KILL)
    newcomer.call
    sleep AWAY
    kit.redis.start
  end

  # All servers but one are stopped when Redis comes back, for half a lease: that one renews its heartbeat first.
  def killed_with_a_first(program)
    kit.redis.stop(:KILL)
    sleep AWAY
    late = @workers.drop(1).each { |worker| worker.signal(:STOP) }
    kit.redis.start
    sleep LEASE / 2.0
    late.each { |worker| worker.signal(:CONT) }
    @workers << kit.worker("c", lease: LEASE, program: program)
  end

  def repeats_within?(seconds)
    kit.eventually(seconds) { kit.verdict.strict_faults.key?(:repeated) }
  rescue RuntimeError
    false
  end

  def stopped(newcomer)
    Process.kill(:STOP, kit.redis.pid)
    newcomer.call
    sleep AWAY
  ensure
    Process.kill(:CONT, kit.redis.pid)
  end

  def paused(newcomer)
    kit.redis.call("CLIENT", "PAUSE", (AWAY * 1000).to_s, "ALL")
    newcomer.call
    sleep AWAY
  end

  # The replica has all that the master had: what it had not heard would be forgotten, and may run twice.
  def failed_over(newcomer)
    kit.eventually { offset(@house.master, "master_repl_offset") == offset(@house.replica, "slave_repl_offset") }
    @house.kill_master { newcomer.call }
    @house.mend
  end

  def offset(member, field) = member.call("INFO", "replication")[/^#{field}:(\d+)/, 1].to_i

  # ---- examples

  it "F36 Redis killed, stopped or paused for two lease times: no job runs twice, nobody is marked dead" do
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: @own = RedisServer.new("--appendfsync", "always"))
    start(FLEET)
    rounds = Figures.count(1, 6)
    rounds.times { %i[killed stopped paused].each { |kind| round { |newcomer| send(kind, newcomer) } } }
    expect(warned).to eq(FLEET.size)
    judge("killed, stopped, paused", 3 * rounds)
  ensure
    @own&.remove
  end

  it "F36 a failover that takes longer than the lease: no job runs twice, nobody is marked dead" do
    @house = SentinelSetup.new(down_after: AWAY * 1000)
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: @house)
    start(FLEET)
    rounds = Figures.count(1, 6)
    rounds.times { round { |newcomer| failed_over(newcomer) } }
    judge("failover", rounds)
  end

  it "F36 control: where nobody notices that Redis was away, jobs run twice" do
    blind = Mutant.build("worker", BLIND)
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: @own = RedisServer.new("--appendfsync", "always"))
    start(%w[c c c c], program: blind)
    begin_round(120)
    5.times do
      killed_with_a_first(blind)
      break if repeats_within?(5)
    end
    expect(kit.verdict.strict_faults).to include(:repeated)
    @workers.each(&:kill)
    Figures.note("F36", "control: runs repeated", kit.verdict.repeated.size)
  ensure
    @own&.remove
  end
end
