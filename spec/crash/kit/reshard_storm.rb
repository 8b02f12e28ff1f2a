# frozen_string_literal: true

require_relative "kept_jobs"

# Queues are given other numbers of shards, again and again, while servers of all languages run jobs of them and producers of all
# languages push: servers are killed, and so is the command that begins a move. One id gets jobs all the time (hot), and one runs long.
class ReshardStorm
  BUSY = "Busy"
  SETTINGS = { batch_size: 2, max_retry_count: 1_000_000, back_off: 0.05 }.freeze
  REPLICATED = { wait_replicas: 1, wait_timeout: 10, push_timeout: 50 }.freeze # outlasts a failover
  PRODUCERS = %w[ruby python lua].freeze
  SERVERS = { "ruby" => nil, "python" => nil, "lua" => nil, "c" => BUSY }.freeze # language => the only queue that it serves
  HOT = "hot"
  LONG = "long"
  PATIENCE = 150 # seconds until a move must have ended
  COMMAND = 0.15 # seconds that the command lives at most; each further time it may live as much longer

  # killed, cut_short: servers and commands; moves: those that have ended
  attr_reader :killed, :cut_short, :moves, :kept

  # @param shards [Integer] of each queue at first
  # @param lease [Float] of the servers
  # @param ids, payloads [Integer] as of KeptJobs
  # @param replicated [Boolean] do pushes wait for a replica?
  def initialize(kit, shards:, lease:, ids:, payloads:, replicated: false)
    @kit = kit
    @lease = lease
    @replicated = replicated
    @killed = @cut_short = @moves = 0
    @lock = Mutex.new
    kit.queue(BUSY, shards_count: shards, fold: replicated ? "merge" : "list", **SETTINGS) # who is told that no replica has a push sends it again
    @kept = KeptJobs.new(kit, shards:, ids:, payloads:, paused: "Merge", history: 8, push: replicated ? REPLICATED : {})
    @enough = File.join(kit.folder, "enough")
    @servers = SERVERS.keys.to_h { |language| [language, start(language)] }
    @servers.each_value(&:wait_until_started)
    @journal = File.open(kit.journal.path)
  end

  # Pushes until `stop_pushing`.
  # @param long [Float] seconds of one run, which begins now
  def start_pushing(long:)
    @kit.push(BUSY, [LONG], 1, sleep: long)
    @producers = [*PRODUCERS.map { |language| producer(language, (1..10).map { |number| "#{language}#{number}" }, 0.01) }, producer("lua", [HOT], 0.002)]
    @kit.eventually { PRODUCERS.all? { |language| @kit.journal.starts(BUSY, "#{language}1").any? } && @kit.journal.starts(BUSY, LONG).any? }
  end

  def stop_pushing
    FileUtils.touch(@enough)
    @producers.each { |process| process.wait(120).zero? or raise process.log }
  end

  # Gives all queues these numbers of shards, one after the other, and all of them at once.
  # @param kill_every [Float, nil] seconds between the deaths of two servers
  # @param meanwhile [Proc] is called with the number while the first queues move
  def reshard(numbers, kill_every:, &meanwhile)
    killer = Thread.new { kill_servers(kill_every) } if kill_every
    numbers.each do |number|
      [BUSY, *KeptJobs::QUEUES.keys].map { |queue| quiet { move(queue, number) } }.tap { meanwhile&.call(number) }.each(&:value)
    end
  ensure
    @ending = true
    killer&.value
  end

  # Ends the servers. @return [Array<Integer, nil>] their exit codes
  def stop_servers = @servers.each_value.map(&:stop)

  def logs = @servers.transform_values { |process| process.log.lines.last(3).join }

  # @return [Hash] shards; old: the number of shards that ids leave, nil when none move. Empty while Redis is away.
  def layout(queue)
    _, shards, _, old = @kit.redis.call("GET", "seriatim:{#{queue}}:layout").split.map(&:to_i)
    { shards: shards, old: old.to_i.zero? ? nil : old }
  rescue SystemCallError, IOError, RuntimeError, NoMethodError # a master that is not there, or dies while it answers
    {}
  end

  private

  def quiet
    Thread.new do
      Thread.current.report_on_exception = false
      yield
    end
  end

  def start(language) = @kit.worker(language, queue: SERVERS.fetch(language), lease: @lease, poll: 0.2, threads: 3)

  # From a random moment on the command is there no more; the servers do what it has begun.
  def move(queue, shards)
    text = -> { "#{queue} does not become #{shards} shards: #{layout(queue)}, #{logs}" }
    longest = 0
    @kit.eventually(PATIENCE, text) { cut_command(queue, shards, longest += COMMAND) && layout(queue)[:shards] == shards }
    @kit.eventually(PATIENCE, text) { layout(queue) == { shards: shards, old: nil } }
    @lock.synchronize { @moves += 1 }
  end

  def cut_command(queue, shards, longest)
    command = @kit.reshard(queue, shards)
    command.end_within(@kit.random.rand(longest))
    command.kill
    @lock.synchronize { @cut_short += 1 if command.status.signaled? }
    true
  end

  def producer(language, ids, pause)
    @kit.producer(language, BUSY, ids, pause: pause, until_file: @enough, **(@replicated ? REPLICATED : {}))
  end

  # ---- kills

  # The server that runs the long job lives.
  def kill_servers(every)
    until @ending
      sleep every
      language = SERVERS.keys.reject { |one| @servers[one].pid == runner_of_long }.sample(random: @kit.random)
      @servers[language].kill
      @servers[language] = start(language)
      @killed += 1
    end
  end

  # @return [Integer, nil] the process that runs it now
  def runner_of_long
    @journal.read.scan(/^(start|end|fail) (\d+) #{BUSY} #{LONG} /) { |kind, pid| @runner = kind == "start" ? pid.to_i : nil }
    @runner
  end
end
