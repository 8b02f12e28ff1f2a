# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/mutant"
require_relative "kit/popper_storm"
require_relative "kit/storm"

# Poppers beside servers on one queue, killed by SIGKILL and frozen by SIGSTOP. A popper has no heartbeat: the id of a dead one comes back when
# its time to run is over.
RSpec.describe "poppers" do
  include CrashKit

  SETTINGS = { shards_count: 12, batch_size: 2, max_retry_count: 1_000_000, back_off: 0.02 }.freeze
  POINTS = %w[popped perform_during acknowledge acknowledged].freeze
  TTR = 4 # seconds; an order of magnitude more than what a run takes, also on a busy machine

  def popper(kind = "c", ttr: TTR, **options) = kit.popper(kind, "Pulled", ttr: ttr, **options)

  def server(**options) = kit.worker("c", lease: 0.3 + kit.random.rand(0.3), threads: 3, **options)

  def ids(count) = (1..count).map { |number| "id#{number}" }

  def finish(last = [server, popper])
    kit.drain(Figures.count(150, 300))
    last.each { |process| expect(process.stop).to eq(0), process.log }
    expect_all_well
  end

  # Calls the block `count` times, and waits for `seconds` before each call.
  def in_turns(count, seconds)
    Thread.new do
      Thread.current.report_on_exception = false
      count.times do
        sleep seconds * (0.5 + kit.random.rand)
        yield
      end
    end
  end

  def refused_of(pids) = kit.journal.lines.count { |line| line.kind == "refused" && pids.include?(line.pid) }

  def figures(what, crowd, verdict)
    Figures.note("F1", "#{what}: SIGKILLs; web applications restarted", "#{crowd.killed}; #{crowd.restarted}")
    Figures.note("F2", "#{what}: poppers frozen in a run", crowd.frozen.size)
    Figures.note("F1", "#{what}: runs, died in a run", [verdict.begun, verdict.cut_short].join(", "))
    Figures.note("F1", "#{what}: lost, reordered, concurrent", [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
    Figures.note("F2", "#{what}: late reports refused, accepted", [verdict.turned_away, verdict.accepted].map(&:size).join(", "))
  end

  it "F1, F2, F3, R-CRASH-8 servers and poppers of all languages are killed and frozen, and web applications restarted", limit: Figures.count(1_500, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    kit.watch_leases
    storm = Storm.new(kit, "Pulled", ids(100), payload: ->(random) { { sleep: random.rand(0.03).round(4) } }) # so some die in a run
    crowd = PopperStorm.new(kit, "Pulled", ttr: 1.5)
    storm.during do
      [in_turns(Figures.count(30, 2_000), 0.08) { crowd.kill_one },
       in_turns(Figures.count(5, 200), 0.7) { crowd.restart_web },
       in_turns(Figures.count(2, 60), 0.1) { crowd.freeze_some }].each(&:value)
      crowd.close
    end
    verdict = finish([server, *%w[c ruby python asyncio lua].map { |kind| popper(kind) }])
    figures("poppers and servers", crowd, verdict)
    http, own = crowd.frozen.partition { |kind, _| kind == "http" }.map { |group| group.map(&:last) }
    expect([refused_of(http), refused_of(own)]).to all(be > 0)
    expect(storm.flushes).to be > 10
  end

  # Each id is a job of its own, and is done by the first acknowledgement that Redis accepts.
  it "F1, R-CRASH-9 each of 100 jobs a second is acknowledged once while their poppers are killed", limit: Figures.count(1_500, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    crowd = PopperStorm.new(kit, "Pulled", ttr: 2, kinds: %w[c ruby python asyncio lua], servers: [])
    pushed = 0
    kills = in_turns(Figures.count(20, 1_000), 0.06) { crowd.kill_one }
    while kills.alive?
      kit.push("Pulled", (pushed...pushed += 10).map { |number| "job#{number}" }, 1, sleep: 0.01)
      sleep 0.1
    end
    kills.value
    kit.push("Pulled", (1..10).map { |number| "long#{number}" }, 1, sleep: 1)
    crowd.kill_in_a_run
    crowd.close
    verdict = finish(%w[c ruby python asyncio lua].map { |kind| popper(kind) })
    Figures.note("F1", "jobs of poppers: SIGKILLs, died in a run", "#{crowd.killed}, #{verdict.cut_short}")
    Figures.note("F1", "jobs of poppers: pushed, acknowledged, begun again", [pushed, kit["Pulled"].metrics[:processed], verdict.repeated.size].join(", "))
    expect(kit["Pulled"].metrics[:processed]).to eq(pushed + 10)
    expect(kit.journal.starts.map(&:id).uniq.size).to eq(pushed + 10)
    expect(verdict.cut_short).to be_positive
  end

  it "R-DUE-1, R-POP-13 of many ids with times of their own no popper gets one before its time", limit: Figures.count(1_500, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    web = kit.web("python", port = RedisServer.free_port)
    poppers = Kit::POPPERS.map { |kind| popper(kind, ttr: 60, url: kind == "http" ? "http://127.0.0.1:#{port}" : kit.redis.url) }
    poppers.each(&:wait_until_started)
    due = push_at_random(Figures.count(600, 10_000), Figures.count(4.0, 30.0))
    kit.drain(Figures.count(150, 300))
    poppers.each { |process| expect(process.stop).to eq(0), process.log }
    web.kill
    expect_all_well
    late = lateness(due, poppers.map(&:pid).zip(Kit::POPPERS).to_h)
    late.each { |kind, seconds| Figures.note("R-DUE-1", "popper in #{kind}: ids; p50, p99 of how late they began, ms", spread(seconds)) }
    expect(late.values.sum(&:size)).to eq(due.size)
    expect(late.keys).to match_array(Kit::POPPERS)
    expect(late.values.flatten.min).to be >= -Checker::EXACT
  end

  # Pushes ids that are due at random times within some seconds. @return [Hash{String=>Float}] Unix time at which each is due
  def push_at_random(count, seconds)
    first = Time.now.to_f + 2
    due = (1..count).to_h { |number| ["due#{number}", first + kit.random.rand(seconds)] }
    due.each_slice(500) do |slice|
      kit["Pulled"].perform_async(slice.map { |id, at| { id: id, payload: { n: 1 }, perform_in: at } })
      kit.journal.pushed_to("Pulled", slice.map(&:first), [1])
    end
    due
  end

  # @param kinds [Hash{Integer=>String}] of the poppers, by process id
  # @return [Hash{String=>Array<Float>}] how many seconds after its time each id began, by kind; once an id, as every tenth run releases it
  def lateness(due, kinds)
    kit.journal.starts.uniq(&:id).group_by { |line| kinds.fetch(line.pid) }
       .transform_values { |lines| lines.map { |line| line.time + Checker::TO_REDIS - due.fetch(line.id) }.sort }
  end

  # @param seconds [Array<Float>] sorted
  def spread(seconds)
    "#{seconds.size}; #{[0.5, 0.99].map { |part| (seconds[(seconds.size * part).floor] * 1000).round(1) }.join(", ")}"
  end

  it "F5, R-POP-2 poppers and servers that are told to stop under load end what they run", limit: Figures.count(1_500, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    kit.watch_leases
    rounds = Figures.count(2, 60)
    long = ->(random) { { sleep: (0.03 + random.rand(0.05)).round(3) } } # so most processes are in a run when they are told to stop
    Storm.new(kit, "Pulled", ids(100), payload: long).during { rounds.times { stop_under_load } }
    verdict = finish([server, popper(ttr: 60)])
    lines = kit.journal.lines.group_by(&:kind)
    poppers = lines["popper"].map(&:pid)
    began = lines["start"].count { |line| poppers.include?(line.pid) }
    Figures.note("F5", "poppers told to stop under load: runs, reported, died in a run", [began, lines["reported"].size, verdict.cut_short].join(", "))
    expect([lines["reported"].size, verdict.turned_away, verdict.cut_short]).to eq([began, [], 0])
  end

  # Starts a popper of each language and a server, and ends them by SIGTERM when each has begun to run ids.
  def stop_under_load
    processes = [server(lease: 5), *(Kit::POPPERS - ["http"]).map { |kind| popper(kind, ttr: 60) }]
    kit.eventually { (processes.map(&:pid) - kit.journal.tail.select { |line| line.kind == "start" }.map(&:pid)).empty? }
    processes.each { |process| process.signal(:TERM) }
    processes.each { |process| expect(process.wait).to eq(0), process.log }
  end

  it "F1 poppers are killed at each of four points", limit: Figures.count(1_500, 3_600) do
    kit.queue("Pulled", **SETTINGS)
    storm = Storm.new(kit, "Pulled", ids(60))
    storm.during do
      Figures.count(2, 50).times do
        dying = POINTS.map { |point| popper(die: "#{point}:#{1 + kit.random.rand(5)}") }
        dying.each { |process| expect(process.wait).to be_nil }
      end
    end
    expect(finish.cut_short).to be_positive
  end

  # The control: a new owner of a shard takes the runs of poppers for those of the dead owner.
  it "F1 the checker fails when a recovery gives away what a popper runs" do
    mutant = Mutant.build("worker", "scripts/server/recover.lua" => [[" and mode ~= RUN_POPPED and ", " and "]])
    kit.queue("Pulled", **SETTINGS, shards_count: 1)
    kit.push("Pulled", ["owned"], [1])
    dead = server(nodes: 1, program: mutant)
    kit.eventually { kit["Pulled"].metrics[:processed] == 1 } # it owns the shard, and runs nothing
    dead.kill
    kit.eventually { kit.redis.call("PUBSUB", "CHANNELS").empty? } # or the push could claim the id for it
    kit.push("Pulled", ["popped"], [2], sleep: 60)
    pulling = popper(ttr: 120)
    kit.eventually { kit.journal.starts.size == 2 }
    owner = server(nodes: 1, program: mutant)
    kit.eventually { kit.verdict.faults.key?(:concurrent) }
    [pulling, owner].each(&:kill)
    Figures.note("F1", "control: recovery of what a popper runs", kit.verdict.faults.transform_values(&:first).inspect)
  end

  # The control: a report does not need the fence of its run.
  it "F2 the checker fails when a late acknowledgement ends the run of another popper" do
    mutant = Mutant.build("popper", "scripts/client/popped.lua" => [["sub(run, 2) == RUN_POPPED .. ARGV[7]", "sub(run, 2, 2) == RUN_POPPED"]])
    kit.queue("Pulled", **SETTINGS, shards_count: 1)
    kit.push("Pulled", ["id"], [1], sleep: 8) # longer than the time to run of the first popper, whose report is late by that alone
    late = popper(ttr: 4, program: mutant)
    kit.eventually { kit.journal.starts.any? }
    late.freeze_if { true }
    other = popper(ttr: 60)
    kit.eventually { kit.journal.starts.size == 2 }
    late.thaw
    kit.eventually { kit.verdict.accepted.any? && kit.verdict.refused.any? }
    [late, other].each(&:kill)
    Figures.note("F2", "control: reports without a fence check", kit.verdict.faults.transform_values(&:first).inspect)
  end
end
