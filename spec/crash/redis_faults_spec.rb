# frozen_string_literal: true

require_relative "kit/all_languages"
require_relative "kit/failover_checker"

# A Redis that takes 3 ms for each key of its file, when told so.
class SlowRedis < RedisServer
  def load_slowly
    @arguments += %w[--key-load-delay 3000 --loading-process-events-interval-bytes 1024]
  end
end

# A connection that Redis lets stay, whatever it does to the others.
class Console
  def initialize(socket)
    @io = UNIXSocket.new(socket)
  end

  def call(words)
    @io.write("#{words}\r\n")
    answer = @io.gets or raise "Redis closed the connection"
    raise answer if answer.start_with?("-")
  end

  # Everybody else has to come back.
  def disconnect_all
    call("CLIENT KILL TYPE normal SKIPME yes")
  end
end

RSpec.describe "Trouble with Redis" do
  include AllLanguages

  # An agent of each language that is connected and knows the queue.
  def agents_that_pushed(urls = Hash.new(redis.url))
    with_agents(urls, Storm: AllLanguages::STORM) do |language, agent|
      agent.push("Storm", { id: "first-#{language}", payload: { n: 0 } })
      agent
    end
  end

  # ---- Redis dies

  # With everysec Redis acknowledges what it has not written yet while a sync to a slow disk is under way, for up to two
  # seconds: what it holds back then is lost, and no client can know. So it is killed when it holds nothing back.
  def disk_keeps_up
    kit.eventually(60) do
      said = redis.call("INFO", "persistence")
      %w[aof_pending_bio_fsync:0 aof_buffer_length:0].all? { |line| said.include?("#{line}\r") }
    end
  end

  # SIGKILL as soon as the load runs again after the one before.
  def kill_redis_under_load(times)
    under_load(nil, pause: Figures.count(0.02, 0.05)) do
      times.times do
        disk_keeps_up
        redis.restart(:KILL)
        more_runs(20)
      end
    end
  end

  %w[everysec always].each do |mode|
    it "F6 Redis dies by SIGKILL with appendfsync #{mode}: nothing acknowledged is lost while the disk keeps up" do
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
    under_load(nil) do
      redis.stop(:KILL)
      kit.journal.write(:failover, 0, Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond))
      redis.start
    end
    drained
    before = kit.journal.ends.size
    kit.push("Storm", %w[ruby1 python1 lua1 new], [10_000_000])
    kit.eventually { kit.journal.ends.size > before + 3 }
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    serve_kept # its producers know the layout that Redis has lost; a server makes it anew
    verdict = FailoverChecker.new(kit.journal.lines)
    note("F6", "numbers lost without a file, of #{kit.journal.lines.count { |line| line.kind == "pushed" }}", verdict.lost.size)
    expect(verdict.faults.keys - %i[lost reordered]).to eq([]) # what comes after a hole is called out of order
    expect(kit.leftovers).to eq([])
  end

  # ---- Redis is full

  it "F7 Redis is full: pushes are refused by name, and workers of every language drain 10,000 jobs to zero" do
    jobs = Figures.count(10_000, 100_000)
    agents = agents_that_pushed
    fill(jobs)
    redis.call("CONFIG", "SET", "maxmemory", "1")
    refusals = at_once(agents) { |_, agent| refusal { agent.push("Storm", { id: "more", payload: { n: 1 } }) } }
    expect(refusals.values).to all(match(/RedisFull|out of memory|full/i))
    @workers = start_workers(redis.url, 10)
    drained
    note("F7", "jobs claimed and settled by a full Redis", jobs)
    expect(kit["Storm"].metrics.values_at(:length, :busy, :processed)).to eq([0, 0, jobs + 3])
    redis.call("CONFIG", "SET", "maxmemory", "0")
    at_once(agents) { |_, agent| agent.push("Storm", { id: "last-#{agent.language}", payload: { n: 2 } }) }
    AllLanguages::LANGUAGES.each { |language| kit.journal.pushed("Storm", "last-#{language}", [2]) }
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults.keys).to eq([])
  end

  def fill(jobs)
    (1..jobs).each_slice(1000) do |numbers|
      kit["Storm"].perform_async(numbers.map { |number| { id: "id#{number}", payload: { n: number } } })
      numbers.each { |number| kit.journal.pushed("Storm", "id#{number}", [number]) }
    end
    AllLanguages::LANGUAGES.each { |language| kit.journal.pushed("Storm", "first-#{language}", [0]) }
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
    expect(nothing_is_lost.repeated).to eq([])
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
    "ERR The user executing the script can't run this command or subcommand script: 0f, on @user_script:1." => "AuthError",
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
    roads = AllLanguages::LANGUAGES.to_h { |language| [language, proxy(Proxy::Rule.new(answer: ->(name) { name == "push" ? text : nil }))] }
    agents_that_pushed(roads.transform_values(&:url))
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

  # One of each kind is enough for a short run.
  def words_for_workers
    WORDS.keys.grep(Figures.count(/\A(READONLY|OOM|NOAUTH|MOVED)/, //))
  end

  it "F15 whatever Redis answers, workers wait and go on" do
    text = nil
    road = proxy(Proxy::Rule.new(answer: ->(name) { %w[AUTH CLIENT SUBSCRIBE PUBLISH].include?(name) ? nil : text }))
    kit.queue("Storm", **AllLanguages::STORM)
    @workers = start_workers(road.url, 10)
    words_for_workers.each_with_index do |words, number|
      text = "-#{words}\r\n"
      kit.push("Storm", (1..20).map(&:to_s), [number])
      pause(0.2)
      expect(@workers).to all(be_alive), words
      text = nil
      drained
    end
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults).to eq({})
  end

  # ---- Redis refuses, for real

  it "F15 a real replica, a long script, too many clients, a full disk: all wait, none ends" do
    with_redis("--enable-debug-command", "yes", "--save", "3600 1", "--busy-reply-threshold", "20")
    agents = agents_that_pushed
    @workers = start_workers(redis.url, 10)
    troubles.each do |name, (start, ending)|
      start.call
      pushes = Thread.new { at_once(agents) { |_, agent| agent.push("Storm", { id: "#{name} #{agent.language}", payload: { n: 1 } }) } }
      pause(0.3)
      expect(pushes).to(be_alive, "#{name}: pushes do not wait") if name != "too many clients"
      ending.call
      expect(pushes.value.values.map { |result| result["added"] }).to eq([1, 1, 1])
      expect(@workers).to all(be_alive), name
      drained
    end
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit["Storm"].metrics[:processed]).to eq(3 + (3 * troubles.size))
  end

  # How each begins, and how it ends.
  def troubles
    {
      "a replica" => [-> { redis.call("REPLICAOF", "127.0.0.1", "1") }, -> { redis.call("REPLICAOF", "NO", "ONE") }],
      "a long script" => [-> { long_script }, -> { redis.call("SCRIPT", "KILL") }],
      "too many clients" => [-> { crowd }, -> { console.call("CONFIG SET maxclients 1000") }],
      "a full disk" => [-> { break_disk }, -> { mend_disk }]
    }
  end

  def console = @console ||= Console.new(redis.socket)

  def crowd
    console.call("CONFIG SET maxclients 1")
    console.disconnect_all
  end

  def long_script
    Thread.new do
      Thread.current.report_on_exception = false
      redis.call("EVAL", "while true do end", "0")
    end
    kit.eventually { answers?("BUSY") }
  end

  # A folder where the file should be: the snapshot fails, and Redis takes no more writes.
  def break_disk
    FileUtils.mkdir_p(File.join(redis.folder, "dump.rdb", "in the way"))
    redis.call("BGSAVE")
    kit.eventually { redis.call("INFO", "persistence").include?("rdb_last_bgsave_status:err") }
  end

  def mend_disk
    FileUtils.rm_rf(File.join(redis.folder, "dump.rdb"))
    redis.call("BGSAVE")
  end

  it "F15 a Redis that loads its file is waited for" do
    with_redis("--enable-debug-command", "yes", redis: SlowRedis)
    agents = agents_that_pushed
    @workers = start_workers(redis.url, 10)
    drained
    loading_meanwhile do
      pushes = at_once(agents) { |_, agent| agent.push("Storm", { id: agent.language, payload: { n: 1 } }) }
      expect(pushes.values.map { |result| result["added"] }).to eq([1, 1, 1])
    end
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit["Storm"].metrics[:processed]).to eq(6)
  end

  # Redis starts again and answers LOADING while the block runs, or for three seconds.
  def loading_meanwhile
    redis.call("DEBUG", "POPULATE", "1000", "filler", "100")
    redis.call("BGREWRITEAOF")
    kit.eventually { redis.call("INFO", "persistence").include?("aof_rewrite_in_progress:0") }
    redis.stop(:KILL)
    redis.load_slowly
    loading = Thread.new { redis.start }
    kit.eventually { answers?("LOADING") }
    yield
    loading.join
  end

  # Does Redis refuse commands with this error?
  def answers?(error)
    redis.call("PING") && false
  rescue SystemCallError
    false
  rescue RuntimeError => e
    e.message.start_with?(error)
  end

  it "F15 missing credentials and rights are an error at once for a push, and waited for by a worker" do
    agents = agents_that_pushed
    @workers = start_workers(redis.url, 10)
    { ["CONFIG SET requirepass secret", "CONFIG SET requirepass \"\""] => 1,
      ["ACL SETUSER default -evalsha -eval", "ACL SETUSER default +evalsha +eval"] => 2 }.each do |(takes, gives), number|
      console.call(takes)
      console.disconnect_all
      refusals = at_once(agents) { |_, agent| refusal { agent.push("Storm", { id: "x", payload: { n: 1 } }) } }
      expect(refusals.values).to(all(match(/AuthError|AUTH/)), "#{takes}: #{refusals}")
      pause(0.3)
      expect(@workers).to all(be_alive)
      console.call(gives)
      at_once(agents) { |_, agent| agent.push("Storm", { id: agent.language, payload: { n: number } }) }
      drained
    end
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
  end

  # ---- An ACL user

  PAGE = File.expand_path("../../docs/guides/deployment.md", __dir__)

  # The user of docs/guides/deployment.md, with these rules behind its own; a URL for it.
  def documented_user(*rules)
    words = %w[ACL SETUSER limited] + File.read(PAGE).scan(/^ACL SETUSER jobs (.*)$/).join(" ").sub("PASSWORD", "secret").split
    redis.call(*words, *rules)
    redis.url.sub("unix://", "unix://limited:secret@")
  end

  # Presses what an operator may press, and asks what may be asked.
  def everything_asked(agent)
    %w[pause resume unpark_all perform_all_jobs_now kill_all_failed_jobs morgue_queue_up_all_jobs delete_all_failed_jobs
       morgue_delete_all_jobs].each { |name| agent.action("Storm", name) }
    %w[park unpark perform_now delete morgue_queue_up morgue_delete].each { |name| agent.action("Storm", name, ["x"]) }
    agent.query("Storm", "fetch", ["x"])
    agent.metrics("Storm")
    agent.explain("Storm", "x")
    agent.check("Storm")
  end

  it "F15 the ACL user that the documentation names is refused nothing" do
    url = documented_user
    redis.call("ACL", "LOG", "RESET")
    agents = agents_that_pushed(Hash.new(url))
    @workers = start_workers(url, 10)
    drained
    at_once(agents) do |_, agent|
      everything_asked(agent)
      2.times { agent.push("Storm", { id: "once", payload: { n: 1 } }) }
    end
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(redis.call("ACL", "LOG")).to eq([])
  end

  it "F15 an ACL user without channels: all jobs run, and each server says once that wakes do not come" do
    url = documented_user("resetchannels")
    agents = agents_that_pushed(Hash.new(url))
    @workers = start_workers(url, 10)
    2.times do |number|
      at_once(agents) { |language, agent| agent.push("Storm", *(1..20).map { |id| { id: "#{language}#{id}", payload: { n: number } } }) }
      drained
    end
    pause(2)
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(@workers.map { |worker| worker.log.scan("poll_interval").size }).to all(eq(1)), @workers.map(&:log).join
    expect(kit["Storm"].metrics[:processed]).to eq(3 + (2 * 60))
  end

  it "P2 CLIENT KILL again and again: every push is applied once, nothing runs twice" do
    under_load(Figures.count(1, 60)) do
      redis.call("CLIENT", "KILL", "TYPE", "normal")
      pause(0.02)
    end
    expect(nothing_is_lost.repeated).to eq([])
  end
end
