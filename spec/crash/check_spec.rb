# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../interop/agents"
require "open3"

# `seriatim check`: it names what is wrong, from each language's command alike, mends it, and does not hold Redis up.
# core/test/test_operator.c damages every kind of key, one by one.
RSpec.describe "check" do
  include CrashKit

  COMMANDS = Language::ALL.transform_values { |commands| [commands.variables, commands.server[0..-3]] }.freeze

  # @return [String, Integer] what it printed, its exit code
  def command(language, *words, url: kit.redis.url)
    variables, server = COMMANDS.fetch(language)
    output, status = Open3.capture2e({ **variables, "REDIS_URL" => url }, *server, "check", *words)
    [output, status.exitstatus]
  end

  # ---- the command

  DAMAGE = [
    %w[SET seriatim:strange 1], %w[SET seriatim:{Shop/9}:jobs 1], %w[SET seriatim:{Shop/0}:strange 1],
    %w[RPUSH seriatim:{Lost/0}:ready x], %w[SET seriatim:{Odd}:layout much], %w[HSET seriatim:{/nodes}:info gone x],
    %w[ZADD seriatim:{Shop/1}:due 5 ghost], %w[DEL seriatim:{Shop/2}:ready], %w[SET seriatim:{Shop/2}:ready wrong],
    %w[HSET seriatim:{Shop/3}:jobs unread4 junk], %w[DEL seriatim:{Shop/4}:state]
  ].freeze
  LINES = [
    /^namespace stray id "seriatim:strange": /, %r{^Shop/9 stray id "seriatim:\{Shop/9\}:jobs": }, %r{^Shop/0 stray id },
    /^namespace layout id "Lost": /, /^namespace layout id "Odd": /, /^namespace node id "gone": /, %r{^Shop/1 stale id "ghost": },
    %r{^Shop/2 type: ready is a string, not a list}, %r{^Shop/3 unreadable id "unread4": }, %r{^Shop/4 state: }
  ].freeze

  def damage
    DAMAGE.each { |words| kit.redis.call(*words) }
  end

  it "F30 all damage is named alike in each language, and mended but for what only a person can judge" do
    kit.queue("Shop", shards_count: 5)
    kit.push("Shop", (1..200).map(&:to_s), 1)
    expect(Language::ALL.keys.map { |language| command(language) }.uniq).to eq([["Shop: 205 records, 0 findings\n", 0]])
    damage
    outputs = Language::ALL.keys.map { |language| command(language) }
    expect(outputs.uniq.size).to eq(1)
    expect(outputs.first.last).to eq(1)
    expect(outputs.first.first).to match(LINES.reduce(//) { |all, line| /(?=(?m:.*)#{line})#{all}/ })

    expect(command("python", "--repair").last).to eq(1) # the strays stay
    kit.redis.call("DEL", "seriatim:strange", "seriatim:{Shop/9}:jobs", "seriatim:{Shop/0}:strange", "seriatim:{Lost/0}:ready", "seriatim:{Odd}:layout")
    Language::ALL.each_key { |language| expect(command(language)).to match([/0 findings/, 0]) }
    kit.worker("c", queue: "Shop").wait_until_started
    kit.drain
    expect(kit.verdict.faults.slice(:lost, :reordered)).to eq({})
  end

  it "prints JSON alike in each language" do
    kit.queue("Shop", shards_count: 5)
    kit.push("Shop", %w[a b], 1)
    damage
    answers = Language::ALL.keys.map { |language| JSON.parse(command(language, "--json").first) }
    expect(answers.drop(1)).to eq([answers.first] * 2)
    expect(answers.first["queues"].first["findings"]).to include({ "shard" => 1, "kind" => "stale", "id" => "ghost", "repaired" => false,
                                                                   "detail" => "entry in due leads to nothing" })
  end

  # ---- F30

  def evicting
    redis = RedisServer.new("--maxmemory", "20mb", "--maxmemory-policy", "allkeys-random", "--appendonly", "no")
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: redis)
    yield redis
  ensure
    @kit.close
    redis.remove
    @kit = nil
  end

  def evicted = kit.redis.call("INFO", "stats")[/^evicted_keys:(\d+)/, 1].to_i

  # Pushes large payloads, and writes keys of other programs, until Redis has evicted `count` keys.
  def push_until_evicted(queue, count)
    (1..).each do |number|
      ids = (1..60).map { |n| "id#{(number * 60 + n) % 400}" }
      kit[queue].perform_async(ids.map { |id| { id: id, payload: { n: number, text: "x" * 800 }, delay: number.even? ? 0 : 1 } })
      100.times { |n| kit.redis.call("SET", "other:#{number}:#{n}", "y" * 4000) }
      return number if evicted >= count
    rescue Seriatim::Error # its layout is gone, or Redis is full
      nil
    end
  end

  it "F30 keys are evicted at random: no worker crashes, the repaired check is clean, the queue works on", limit: 1500 do
    evicting do |redis|
      kit.queue("Evicted", shards_count: 6, back_off: 0.1, max_retry_count: 3)
      workers = %w[c ruby python lua].map { |language| kit.worker(language, queue: "Evicted", lease: 1) }
      workers.each(&:wait_until_started)
      push_until_evicted("Evicted", Figures.count(1_000, 20_000))
      workers.each { |worker| expect(worker).to be_alive, worker.log }
      redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
      redis.call("CONFIG", "SET", "maxmemory", "0")
      workers.each { |worker| worker.signal(:TERM) }
      workers.each { |worker| expect(worker.wait).to eq(0), worker.log } # a second TERM ends a process at once
      redis.call("DEL", "seriatim:{Evicted}:layout") # also where it was not evicted
      lost = kit["Evicted"].actions.check(repair: true)[:findings]
      expect(lost.map { |finding| finding.values_at(:kind, :id, :repaired) }).to eq([["layout", "Evicted", false]])
      kit.push("Evicted", %w[anew], 1)
      expect(redis.call("GET", "seriatim:{Evicted}:layout")).to eq("1 6 3") # its application makes it
      found = kit["Evicted"].actions.check(repair: true)[:findings]
      kit["Evicted"].actions.check(repair: true)
      expect(kit["Evicted"].actions.check[:findings]).to eq([])
      worker = kit.worker("ruby", queue: "Evicted").tap(&:wait_until_started)
      kit.push("Evicted", %w[a b c d e f g h], 1)
      kit.drain
      expect(worker.stop).to eq(0)
      expect(command("lua", url: redis.url)).to match([/0 findings/, 0])
      expect(kit.journal.ends("Evicted").map(&:id)).to include(*%w[a b c d e f g h])
      Figures.note("F30", "keys evicted", evicted)
      Figures.note("F30", "findings, all mended", found.size)
    end
  end

  # ---- slices

  # The scripts of ours that took longer, as Redis counts.
  def slow_scripts(redis)
    redis.call("SLOWLOG", "GET", "-1").select { |entry| entry[3][0].upcase.start_with?("EVAL") }.map { |entry| entry[2].to_f / 1000 }.sort
  end

  it "a check of many ids does not hold Redis up", limit: Figures.count(1500, 1800) do
    count = Figures.count(20_000, 1_000_000)
    worker = kit.queue("Many", shards_count: 1)
    (1..count).each_slice(10_000) do |slice|
      worker.perform_async(slice.map { |id| { id: id, payload: { n: id }, **(id % 4 == 0 ? { delay: 600 } : {}) } })
    end
    kit.redis.call("CONFIG", "SET", "slowlog-max-len", "100000")
    kit.redis.call("CONFIG", "SET", "slowlog-log-slower-than", Figures.count(0, 200).to_s)
    expect((1..5).any? { lets_others_in?(worker) }).to be(true) # a machine may be busy with other things
  end

  def lets_others_in?(worker)
    kit.redis.call("SLOWLOG", "RESET")
    before = Journal.now
    result = worker.actions.check
    seconds = Journal.now - before
    expect(result[:findings]).to eq([])
    slow = slow_scripts(kit.redis)
    Figures.note("F30", "records that check looked at", result[:looked_at])
    Figures.note("F30", "seconds it took", seconds.round(1))
    Figures.note("F30", "its slices in ms, median and p99#{" of those over 0.2 ms" if Figures::SOAK}",
                 [slow[slow.size / 2], slow[slow.size * 99 / 100]].map { |ms| ms&.round(2) }.join(", "))
    slow[slow.size / 2].to_f < 20 # 0.2 on a quiet machine; all at once it takes a second
  end

  # ---- F33

  it "F33 a queue that a later version changed is refused by name, in each language" do
    kit.queue("Later", shards_count: 3)
    kit.push("Later", %w[a], 1)
    kit.redis.call("SET", "seriatim:{Later}:layout", "1 3 5")
    Language::ALL.each_key do |language|
      agent = AgentProcess.new(language, kit.redis.url, File.join(kit.folder, "later-#{language}"))
      agent.worker("Later", shards_count: 3)
      expect { agent.push("Later", { id: "b", payload: 1 }) }.to raise_error(AgentProcess::Refused, /schema 5, which a later version made/)
      agent.close
    end
    expect(command("ruby")).to match([/^namespace layout id "Later": /, 1])
  end
end
