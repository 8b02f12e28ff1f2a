# frozen_string_literal: true

require "open3"
require_relative "../crash/kit/all_languages"
require_relative "../crash/kit/cluster_checker"
require_relative "../support/cluster_setup"

# Servers, and producers of all languages whose pushes wait for a replica, on a Redis Cluster; and what happens to it and to the servers
# meanwhile. Each of these may be called from a thread of its own.
#
# A replica does not know of a move that is under way, so Redis itself would lose half of a slot if a master were replaced meanwhile.
# Moves are held for that time.
module ClusterLoad
  QUEUE = "Load"
  SHARDS = 16
  LEASE = (2 * RedisCluster::NODE_TIMEOUT_MS / 1000) + 2 # seconds, as docs/guides/scaling.md has it
  Server = Struct.new(:language, :process, :frozen)

  def self.included(group)
    group.include(AllLanguages)
    group.before { @masters_lock = Mutex.new }
  end

  def cluster = redis.cluster

  # The slots of a queue's shards.
  def slots(queue, shards) = Array.new(shards) { |shard| cluster.slot_of("{#{queue}/#{shard}}") }

  # ---- the load

  # @param languages [Array<String>] of the servers; "nginx" is one, too
  # @param lease [Integer] seconds
  def start_load(languages = Kit::LANGUAGES, lease: LEASE)
    @lease = lease
    kit.queue(QUEUE, shards_count: SHARDS, max_retry_count: 1_000_000, back_off: 0.05)
    @servers_lock = Mutex.new
    @killed = []
    @enough = File.join(kit.folder, "enough")
    @servers = languages.map { |language| Server.new(language, start_server(language), false) }
    @servers.each { |server| server.process.wait_until_started }
    @producers = AllLanguages::LANGUAGES.map { |language| replicated_producer(language) }
    more_runs(100)
  end

  # That in nginx pushes as well.
  def start_server(language)
    return kit.worker(language, queue: QUEUE, lease: @lease) if language != "nginx"

    kit.nginx(QUEUE, ids: ids_of(language), until_file: @enough, pause: 0.02, lease_time: @lease, poll_interval: 0.5, wait_replicas: 1, wait_timeout: 0.5)
  end

  # wait_timeout outlasts a failover: whoever is told that too few replicas have a push pushes it again, and it runs again.
  def replicated_producer(language)
    workload = { workers: { QUEUE => { shards_count: SHARDS } }, queue: QUEUE, ids: ids_of(language), count: 1_000_000, pause: 0.02,
                 until: @enough, payload: { sleep: 0.003 }, seriatim: { wait_replicas: 1, wait_timeout: 10, push_timeout: 50 } }
    commands = Language::ALL.fetch(language)
    variables = { "REDIS_URL" => redis.url, "JOURNAL" => kit.journal.path, "WORKLOAD" => JSON.generate(workload) }
    kit.start(commands.producer, { **commands.variables, **variables })
  end

  # Waits until all that was pushed has run. Nothing may be left, also in the eyes of the command.
  # @return [ClusterChecker]
  def end_load
    FileUtils.touch(@enough)
    @producers.each { |producer| expect(producer.wait(120)).to eq(0), producer.log }
    @servers.map(&:process).grep(NginxProcess).each(&:wait_for_producer)
    kit.drain(150)
    @servers.each { |server| expect(server.process.stop).to eq(0), server.process.log }
    expect(kit.leftovers).to eq([])
    @servers.map(&:language).uniq.each { |language| expect_check_to_find_nothing(language) }
    ClusterChecker.new(kit.journal.lines, SHARDS).tap { |verdict| expect_refused(verdict) }
  end

  def expect_check_to_find_nothing(language)
    return unless Language::ALL.key?(language)

    commands = Language::ALL.fetch(language)
    said, status = Open3.capture2e({ **commands.variables, "REDIS_URL" => redis.url }, *commands.server.take_while { |word| word != "-r" }, "check")
    expect(status.exitstatus).to eq(0), said
  end

  # Each run that another one overtook, and that reported its end, was refused: no two runs of an id are accepted. Of a process that was
  # killed nobody knows what it was told.
  def expect_refused(verdict)
    accepted = verdict.overtaken.reject { |(pid, shard), count| @killed.include?(pid) || refused_by(pid)[shard] >= count }
    expect(accepted).to eq({}), "accepted: #{accepted}, refused: #{accepted.keys.to_h { |pid, _| [pid, refused_by(pid)] }}"
  end

  # @return [Hash{Integer => Integer}] results that Redis refused, by shard, as the process logged it
  def refused_by(pid)
    @refused_by ||= {}
    @refused_by[pid] ||= begin
      log = kit.processes.find { |process| process.runs_as?(pid) }.log
      log.scan(/(\d+) job results refused in shard \S*{#{QUEUE}\/(\d+)}/).each_with_object(Hash.new(0)) { |(count, shard), all| all[shard.to_i] += count.to_i }
    end
  end

  # ---- what happens

  # Repeats all of this side by side for a number of seconds.
  # @param turns [Hash{Symbol => Float}] method => seconds from the beginning of a call to that of the next one
  # @return [Hash{Symbol => Integer}] how often
  def storm(seconds, turns)
    deadline = Journal.now + seconds
    threads = turns.map do |name, every|
      Thread.new do
        Thread.current.report_on_exception = false
        [name, repeat_until(deadline, every) { send(name) }]
      end
    end
    threads.to_h(&:value)
  end

  def repeat_until(deadline, every)
    count = 0
    while (begun = Journal.now) < deadline
      yield
      count += 1
      pause([begun + every - Journal.now, 0].max)
    end
    count
  end

  # Moves a slot of a shard, of the queue's layout, or of the heartbeats to another master.
  def move_slot
    @slots ||= [*slots(QUEUE, SHARDS), *["{#{QUEUE}}", "{/nodes}"].map { |tag| cluster.slot_of(tag) }].cycle
    @masters_lock.synchronize do
      slot = @slots.next
      cluster.move_slot(slot, (cluster.masters - [cluster.master_of(slot)]).sample(random: kit.random))
    end
  end

  def fail_over
    @masters_lock.synchronize do
      make_moves_safe
      cluster.failover(cluster.masters.sample(random: kit.random))
      cluster.await_whole
    end
  end

  def kill_master = replace_master(:kill, :restart)
  def freeze_master = replace_master(:freeze_process, :thaw)

  def replace_master(stop, go_on, queue = QUEUE, shards = SHARDS)
    @masters_lock.synchronize do
      make_moves_safe
      master = cluster.masters.sample(random: kit.random)
      its = (0...shards).select { |shard| cluster.master_of(slots(queue, shards)[shard]) == master }
      cluster.replace(master, stop) { |replica| note_heard(replica, queue, its) }
      master.public_send(go_on)
      cluster.await_whole
    end
  end

  # A replica must have the keys of a slot that was moved, and know whose it is, before it takes over.
  def make_moves_safe
    cluster.await_whole
    cluster.await_replicas
  end

  def note_heard(replica, queue, shards)
    kit.journal.write(:failover, 0, Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond))
    cluster.await_silence(replica)
    states = replica.values(shards.map { |shard| "seriatim:{#{queue}/#{shard}}:state" })
    shards.zip(states) { |shard, state| kit.journal.write(:heard, queue, shard, state.to_s.unpack("E2").last.to_i) }
  end

  # SIGKILL, and another one of its language in its place.
  def kill_server
    @servers_lock.synchronize do
      server = @servers.reject(&:frozen).sample(random: kit.random)
      @killed << server.process.pid
      server.process.kill
      server.process = start_server(server.language)
    end
  end

  # SIGSTOP in a run, until its shards are others'.
  def freeze_server
    server = kit.eventually { @servers_lock.synchronize { freeze_one } }
    pause(LEASE)
    kit.eventually(150, -> { "#{server.process.pid} still owns shards" }) { @masters_lock.synchronize { taken?(server) && server.process.thaw } }
    server.frozen = false
  end

  def freeze_one
    server = @servers.reject(&:frozen).sample(random: kit.random)
    server if server.process.alive? && (server.frozen = server.process.freeze_if { kit.journal.running?(server.process.pid) })
  end

  # Also in the eyes of the replicas, which may be masters soon.
  def taken?(server)
    return false if kit.owners(QUEUE).include?(server.process.pid)

    cluster.await_replicas
    true
  end
end
