# frozen_string_literal: true

require_relative "kit/sides"

RSpec.describe "Trouble with Redis" do
  include Sides

  # ---- Redis dies

  # SIGKILL as soon as the load runs again after the one before.
  def kill_redis_under_load(times)
    under_load(nil) do
      times.times do
        redis.restart(:KILL)
        starts = kit.journal.starts.size
        kit.eventually(60) { kit.journal.starts.size > starts + 20 }
      end
    end
  end

  %w[everysec always].each do |mode|
    it "F6 Redis dies by SIGKILL with appendfsync #{mode}: nothing acknowledged is lost" do
      with_redis("--appendfsync", mode)
      kills = Figures.count(3, 60)
      kill_redis_under_load(kills)
      verdict = nothing_is_lost
      note("F6", "SIGKILLs of Redis with appendfsync #{mode}", kills)
      note("F6", "pushes acknowledged meanwhile, appendfsync #{mode}", kit.journal.lines.count { |line| line.kind == "pushed" })
      note("F6", "numbers run more than once, appendfsync #{mode}", verdict.repeated.size)
      expect(verdict.repeated).to eq([])
    end
  end

  # Without a file all is gone, also what the workers hold: they find it out, and go on with what comes after.
  it "F6 Redis dies without a file: what it held is gone, and nobody hangs" do
    with_redis("--appendonly", "no")
    under_load(nil) { redis.restart(:KILL) && pause(1) }
    drained
    before = kit.journal.ends.size
    kit.push("Storm", %w[ruby1 python1 lua1 new], [10_000_000])
    kit.eventually { kit.journal.ends.size > before + 3 }
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    note("F6", "numbers lost without a file, of #{kit.journal.lines.count { |line| line.kind == "pushed" }}", kit.verdict.lost.size)
    expect(kit.verdict.faults.keys - %i[lost reordered]).to eq([]) # what comes after a hole is called out of order
    expect(kit.leftovers.grep_v(/{Kept/)).to eq([])
  end

  # ---- Redis is full

  it "F7 Redis is full: pushes are refused by name, and workers of every language drain 10,000 jobs to zero" do
    jobs = Figures.count(10_000, 100_000)
    kit.queue("Storm", **Sides::STORM)
    agents = with_agents(Storm: Sides::STORM) { |_, agent| agent.push("Storm", { id: "first-#{agent.language}", payload: { n: 0 } }) && agent }
    fill(jobs)
    redis.call("CONFIG", "SET", "maxmemory", "1")
    refusals = at_once(agents) { |_, agent| refusal { agent.push("Storm", { id: "more", payload: { n: 1 } }) } }
    expect(refusals.values).to all(match(/RedisFull|out of memory|full/i))
    @workers = start_workers(redis.url, 3)
    drained
    note("F7", "jobs claimed and settled by a full Redis", jobs)
    expect(kit["Storm"].metrics.values_at(:length, :busy, :processed)).to eq([0, 0, jobs + 3])
    redis.call("CONFIG", "SET", "maxmemory", "0")
    at_once(agents) { |_, agent| agent.push("Storm", { id: "last-#{agent.language}", payload: { n: 2 } }) }
    Sides::LANGUAGES.each { |language| kit.journal.pushed("Storm", "last-#{language}", [2]) }
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults.keys).to eq([])
  end

  def fill(jobs)
    (1..jobs).each_slice(1000) do |numbers|
      kit["Storm"].perform_async(numbers.map { |number| { id: "id#{number}", payload: { n: number } } })
      numbers.each { |number| kit.journal.pushed("Storm", "id#{number}", [number]) }
    end
    Sides::LANGUAGES.each { |language| kit.journal.pushed("Storm", "first-#{language}", [0]) }
  end

  # What the language said to a push that must not succeed.
  def refusal
    yield
    raise "the push was taken"
  rescue AgentProcess::Refused => e
    e.message
  end

  # ---- Redis is slow

  it "F4, F16 Redis stands still for seconds: nothing is lost or runs twice" do
    under_load(nil) do
      Figures.count([1, 2], [1, 5, 10, 14]).each do |seconds|
        Process.kill(:STOP, redis.pid)
        pause(seconds)
        Process.kill(:CONT, redis.pid)
        pause(0.5)
      end
    end
    nothing_is_lost
  end

  # ---- Redis refuses

  # What becomes of a push while Redis answers so: it waits for better (nil), or is refused with this error.
  WORDS = {
    "READONLY You can't write against a read only replica. script: 0f, on @user_script:1." => nil,
    "LOADING Redis is loading the dataset in memory" => nil,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'." => nil,
    "CLUSTERDOWN The cluster is down" => nil,
    "TRYAGAIN Multiple keys request during rehashing of slot" => nil,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE." => nil,
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk." => nil,
    "NOREPLICAS Not enough good replicas to write." => nil,
    "ERR max number of clients reached" => nil,
    "OOM command not allowed when used memory > 'maxmemory'." => "RedisFull",
    "NOAUTH Authentication required." => "AuthError",
    "WRONGPASS invalid username-password pair or user is disabled." => "AuthError",
    "NOPERM this user has no permissions to run the 'evalsha' command" => "AuthError",
    "DENIED Redis is running in protected mode because protected mode is enabled" => "AuthError",
    "MOVED 3999 127.0.0.1:6381" => "RedisError",
    "ASK 3999 127.0.0.1:6381" => "RedisError",
    "CROSSSLOT Keys in request don't hash to the same slot" => "RedisError",
    "WRONGTYPE Operation against a key holding the wrong kind of value" => "RedisError",
    "UNKILLABLE Sorry the script already executed write commands against the dataset." => nil,
    "INPROG Failover in progress" => nil,
    "IOERR error or timeout connecting to the client" => nil,
    "ERR unknown command 'evalsha'" => "RedisError"
  }.freeze

  # The scripts of a push; a worker's are all.
  it "F15 every error word has its meaning for a push, in every language" do
    text = nil
    roads = Sides::LANGUAGES.to_h { |language| [language, proxy(Proxy::Rule.new(answer: ->(name) { name == "push" ? text : nil }))] }
    with_agents(roads.transform_values(&:url), Storm: Sides::STORM) { |_, agent| agent.push("Storm", { id: "x", payload: { n: 0 } }) }
    WORDS.each_with_index do |(words, error), number|
      text = "-#{words}\r\n"
      mender = Thread.new { error || (pause(0.15) || text = nil) }
      said = at_once(agent_of) { |_, agent| outcome { agent.push("Storm", { id: "x", payload: { n: number } }) } }
      mender.join
      expect(said.values).to all(error ? match(/#{error}|#{IN_LUA[error]}/) : eq("pushed")), "#{words}: #{said}"
    end
  end

  IN_LUA = { "RedisFull" => "FULL", "AuthError" => "AUTH", "RedisError" => "SERVER" }.freeze

  def outcome
    yield
    "pushed"
  rescue AgentProcess::Refused => e
    e.message
  end

  it "F15 whatever Redis answers, workers wait and go on" do
    text = nil
    road = proxy(Proxy::Rule.new(answer: ->(name) { %w[AUTH CLIENT SUBSCRIBE PUBLISH].include?(name) ? nil : text }))
    kit.queue("Storm", **Sides::STORM)
    @workers = start_workers(road.url, 3)
    WORDS.each_key.with_index do |words, number|
      text = "-#{words}\r\n"
      kit.push("Storm", (1..20).map(&:to_s), [number])
      pause(0.2)
      expect(@workers).to all(be_alive), words
      text = nil
      drained(20)
    end
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults).to eq({})
  end
end
