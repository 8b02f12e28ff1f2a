# frozen_string_literal: true

require_relative "kit/all_languages"
require_relative "kit/clock"

RSpec.describe "Clocks" do
  include AllLanguages

  LEASE = 20 # so long that a busy machine gives each worker some time within it
  AHEAD = 160 # eight leases, as 2 s are for leases of 250 ms

  it "F13 the clocks of half of the workers are eight leases ahead: nothing runs twice, no lease is taken" do
    ahead = Clock.new(AHEAD).environment
    halves = Figures.count([%w[c python]], [%w[c python], %w[ruby lua]])
    halves.each do |half|
      under_load(Figures.count(2, 30), workers: lambda {
        Kit::LANGUAGES.map { |language| spawn_worker(language, half.include?(language) ? ahead : {}, lease: LEASE) }
      }) { pause(0.1) }
      verdict = nothing_is_lost
      note("F13", "runs with the clocks of #{half.join(" and ")} #{AHEAD} s ahead", kit.journal.starts.size)
      note("F13", "repeated runs", verdict.repeated.size)
      expect(verdict.strict_faults.except(:lost)).to eq({})
      expect(kit.refused).to eq(0)
    end
  end

  # At worst leases end early or late: another may run what a worker still has, whose settle is then refused.
  it "F14 the clock of Redis jumps an hour ahead and back under load: nothing is lost or out of order" do
    with_redis(redis: ShiftedRedis)
    jumps = [3600, 0, -3600, 0].cycle.first(Figures.count(4, 40))
    under_load(nil) do
      jumps.each do |seconds|
        redis.clock.set(seconds)
        more_runs(50, 100, "nothing runs after the jump to #{seconds}")
      end
    end
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    verdict = kit.verdict
    note("F14", "jumps of Redis' clock by an hour", jumps.size)
    note("F14", "runs that another had begun as well", verdict.concurrent.size)
    expect(verdict.faults.except(:lost, :concurrent)).to eq({})
    expect(verdict.lost.grep_v(%r{\AKept/})).to eq([])
    expect(kit.leftovers.grep_v(/{Kept/)).to eq([])
  end
end
