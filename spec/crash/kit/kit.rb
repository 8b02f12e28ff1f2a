# frozen_string_literal: true

$LOAD_PATH.unshift File.expand_path("../../../ruby/lib", __dir__)
require "fileutils"
require "json"
require "seriatim"
require "tmpdir"
require_relative "../../../ruby/spec/processes/support/workload"
require_relative "../../support/languages"
require_relative "c_program"
require_relative "checker"
require_relative "../../support/figures"
require_relative "heartbeat_watch"
require_relative "fork_servers"
require_relative "process"
require_relative "../../support/redis_server"

# One run of the crash kit: a Redis and a folder of its own, a journal, queues, workers and producers of any language, and the
# judgement in the end.
#
#   kit = Kit.new(seed: 7)
#   kit.queue("Orders", shards_count: 8, batch_size: 2, back_off: 0.05, max_retry_count: 1000)
#   worker = kit.worker("ruby", lease: 0.5, threads: 4)       # c, ruby, python, lua; a ChildProcess
#   kit.push("Orders", %w[a b c], 1, sleep: 0.002)            # number 1 to each of these ids
#   worker.kill
#   kit.worker("c")
#   kit.drain
#   kit.verdict.faults    # {} when nothing is lost, out of order, concurrent, unfenced
#   kit.leftovers         # [] when Redis holds nothing that should be gone, and `check` finds nothing
#   kit.close
class Kit
  LANGUAGES = %w[c ruby python lua].freeze
  POPPERS = [*LANGUAGES, "asyncio", "http"].freeze
  WEB_HOSTS = %w[ruby python nginx].freeze
  LEFT_OVER = /:(jobs|ready|due|next|retry|dead|died|parked|unproven|suspect|overrun|uniting|claims|spill.*|spillmap.*|nextspill.*|deadspill.*|scheduled|sched:.*|schedmap:.*|leav.*|moving|arriv.*)\z/
  FIELDS = { shards_count: 5, batch_size: 1, max_retry_count: 25, fold: "merge", back_off: 0.1 }.freeze # as the C worker wants them

  attr_reader :redis, :folder, :journal, :random, :seed, :processes

  # @param redis [RedisServer] of whoever gives it; nil: one of its own
  def initialize(seed: Random.new_seed % 100_000, redis: nil)
    @seed = seed
    @random = Random.new(seed)
    @own_redis = RedisServer.new unless redis
    @redis = redis || @own_redis
    @folder = Dir.mktmpdir("seriatim-crash")
    @journal = Journal.new(File.join(@folder, "journal"))
    @processes = []
    @living = {} # pid => process
    @lock = Mutex.new
    @logs = 0
    @queues = {}
    @modules = {}
    @fork_servers = ForkServers.new
    Seriatim.logger = nil
    Seriatim.redis = @redis.url
    Seriatim.push_timeout = 50 # outlasts the faults
  end

  # Ends every process that the kit started.
  def close
    @lapses&.stop
    @fork_servers.close
    @processes.each(&:remove)
    @own_redis&.remove
    FileUtils.rm_rf(@folder)
  end

  # Journal and logs in a folder that stays. @return [String]
  def keep
    kept = Dir.mktmpdir("seriatim-crash-failed")
    FileUtils.cp_r("#{@folder}/.", kept)
    kept
  end

  # ---- queues

  # @param settings of Seriatim::Worker, and back_off: the seconds that retry_in gives
  # @return [Module] the worker, for pushes, metrics, queries and actions
  def queue(name, **settings)
    @queues[name.to_s] = settings
    @modules[name.to_s] = Workload.worker(name.to_s, settings)
  end

  def [](name) = @modules.fetch(name.to_s)

  # ---- processes

  # Starts a worker process, without waiting for it.
  # @param lease, poll [Float] seconds
  # @param nodes, node [Integer, nil] a fixed part of the shards (1, 0: all of them); nil: shared among the living
  # @param die [String, nil] "perform_during:3": by SIGKILL in its third run; also perform_begin, perform_end
  # @param url [String] a proxy's
  # @param program [String] of the C worker: a mutant
  # @param settings of the module Seriatim, in Ruby, Python and Lua
  # @return [ChildProcess]
  def worker(language, queue: nil, threads: 4, lease: 1, poll: 0.5, nodes: nil, node: 0, die: nil, url: redis.url,
             program: nil, tasks: false, environment: {}, **settings)
    variables = { "REDIS_URL" => url, "JOURNAL" => journal.path, "DIE" => die.to_s, **environment }
    return c_worker(variables, queue || only_queue, threads, lease, poll, nodes, node, program) if language == "c"

    workload = { workers: queue ? @queues.slice(queue.to_s) : @queues, nodes: nodes, node: node, tasks: tasks,
                 seriatim: { lease_time: lease, poll_interval: poll, threads_per_node: threads, **settings } }
    serve(language, variables.merge("WORKLOAD" => JSON.generate(workload)), threads)
  end

  # Starts a popper, without waiting for it.
  # @param kind [String] one of POPPERS; with "http" url is that of a web application
  # @param ttr [Numeric] seconds
  # @param max [Integer] payloads of a delivery
  # @param die [String, nil] "acknowledge:3": by SIGKILL in its third run; also popped, perform_during, acknowledged
  # @param program [String] of the popper in C: a mutant
  # @return [ChildProcess]
  def popper(kind, queue, ttr:, max: 3, die: nil, url: redis.url, program: nil)
    variables = { "REDIS_URL" => url, "JOURNAL" => journal.path, "DIE" => die.to_s }
    words = [queue, ttr, max].map(&:to_s)
    case kind
    when "c" then start([program || (@c_popper ||= CProgram.popper), *words], variables)
    when "lua" then start(["lua5.4", "#{CProgram::KIT}/popper.lua", *words], { **Language::ALL["lua"].variables, **variables })
    when "ruby" then fork("ruby", variables, words, "#{CProgram::KIT}/popper.rb")
    when "http" then fork("ruby", variables, [*words, url], "#{CProgram::KIT}/popper.rb")
    else fork("python", { "WORKLOAD" => "{}", **variables }, [*words, *("async" if kind == "asyncio")], "#{CProgram::KIT}/popper.py")
    end
  end

  # Starts the command that gives a queue another number of shards, without waiting for it.
  # @return [ChildProcess]
  def reshard(queue, shards, url: redis.url) = fork("ruby", { "REDIS_URL" => url }, ["reshard", queue, shards.to_s, "--no-wait"])

  # Starts a web application with consumers, without waiting for it.
  # @param host [String] one of WEB_HOSTS
  # @return [ChildProcess]
  def web(host, port)
    variables = { "REDIS_URL" => redis.url }
    case host
    when "ruby" then fork("ruby", variables, ["web", "--port", port.to_s, "-r", "#{CProgram::KIT}/web_app.rb"])
    when "python" then fork("python", variables, [port.to_s], "#{CProgram::KIT}/web_app.py")
    else start(["nginx", "-p", folder, "-c", nginx_configuration(port), "-e", "error.log"])
    end
  end

  # Starts an nginx whose worker process runs the jobs of a queue, without waiting for it.
  # @param ids, until_file, pause as of `producer`; ids nil: it pushes nothing by itself
  # @param serves [Boolean] false: it runs no jobs, and only pushes by requests; see spec/interop/in_nginx.lua
  # @param settings of the module
  # @return [NginxProcess]
  def nginx(queue, ids: nil, until_file: nil, pause: 0, serves: true, url: redis.url, **settings)
    workload = { workers: @queues.slice(queue), queue:, ids:, until: until_file, pause:, serves:, seriatim: settings }.compact
    variables = { "REDIS_URL" => url, "JOURNAL" => journal.path, "WORKLOAD" => JSON.generate(workload) }
    port = RedisServer.free_port
    configuration = nginx_configuration(port, "#{Language::INTEROP}/nginx.conf")
    add(NginxProcess.new(port, ["nginx", "-p", folder, "-c", configuration, "-e", "stderr"], variables, next_log, journal))
  end

  # Starts a process that pushes 1..count to each of the ids, one by one, until the file is there.
  # @param settings of the module Seriatim, in Ruby, Python and Lua
  def producer(language, queue, ids, count: 1_000_000, pause: 0, until_file: nil, payload: {}, url: redis.url, program: nil,
               environment: {}, **settings)
    variables = { "REDIS_URL" => url, "JOURNAL" => journal.path, **environment }
    if language == "c"
      fields = fields_of(queue)
      return start([program || CProgram.producer, queue.to_s, *fields.values_at(:shards_count, :fold), count, pause, *ids], variables)
    end

    workload = { workers: @queues, queue: queue, ids: ids, count: count, pause: pause, until: until_file, payload: payload, seriatim: settings }
    commands = Language::ALL.fetch(language)
    start(commands.producer, { **commands.variables, **variables, "WORKLOAD" => JSON.generate(workload) })
  end

  # Starts any command.
  def start(command, variables = {})
    add(SpawnedProcess.new(command.map(&:to_s), variables, next_log, journal))
  end

  # Takes the exit status of those that have ended, by whatever hand. @return [Array<ChildProcess>] those that live
  def living
    @lock.synchronize { @living.delete_if { |_, process| !process.alive? }.values }
  end

  # From now on writes to the journal whose heartbeat lapsed: a busy machine may give a process no time for a whole lease.
  def watch_leases
    @lapses ||= HeartbeatWatch.new(redis.socket, journal)
  end

  # ---- jobs

  # Pushes the numbers to each of the ids, in one call.
  def push(queue, ids, numbers, **payload)
    numbers = Array(numbers)
    self[queue].perform_async(ids.flat_map { |id| numbers.map { |number| { id: id, payload: { n: number, **payload } } } })
    journal.pushed_to(queue, ids, numbers)
  end

  # @return [Array<Integer>] the process ids of the nodes that own shards of the queue
  def owners(queue) = self[queue].metrics[:shards].filter_map { |shard| shard[:owner].to_s[/-(\d+)-\h+\z/, 1]&.to_i }.uniq

  # How many ids wait or run, and how many payloads are scheduled, in all queues.
  def backlog = @modules.each_value.sum { |worker| worker.metrics.values_at(:length, :busy, :scheduled).sum }

  # Waits until no id waits and none runs, and nothing is scheduled.
  def drain(seconds = 120)
    eventually(seconds, -> { "not drained: #{@modules.transform_values { |worker| worker.metrics.except(:shards) }}" }) { backlog.zero? }
  end

  def eventually(seconds = 120, failure = -> { "not within #{seconds} s" })
    deadline = Journal.now + seconds
    pause = 0.02
    until (result = yield)
      raise failure.call if Journal.now > deadline

      sleep pause
      pause = [pause * 1.2, 0.1].min # what is asked, Redis or the journal, has other work to do
    end
    result
  end

  # ---- judgements

  def verdict = Checker.new(journal.lines)

  # Settles that Redis refused.
  def refused = @modules.each_value.sum { |worker| worker.metrics[:refused] }

  # Keys that should have gone with the last job, and findings of Seriatim's own check.
  def leftovers
    cursor = "0"
    keys = []
    loop do
      cursor, found = redis.call("SCAN", cursor, "COUNT", "1000")
      keys.concat(found.grep(LEFT_OVER))
      break if cursor == "0"
    end
    keys + @modules.flat_map { |_, worker| worker.actions.check[:findings] }
  end

  private

  def only_queue
    @queues.size == 1 ? @queues.keys.first : raise(ArgumentError, "queue: of #{@queues.keys}")
  end

  def fields_of(queue) = FIELDS.merge(@queues.fetch(queue.to_s))

  def c_worker(variables, queue, threads, lease, poll, nodes, node, program)
    shards, batch, retries, fold, back_off = fields_of(queue).values_at(*FIELDS.keys)
    start([program || (@c_worker ||= CProgram.worker), queue, shards, batch, retries, fold, threads, (lease * 1000).to_i,
           (poll * 1000).to_i, back_off, nodes.to_i, node], variables)
  end

  def serve(language, variables, threads)
    commands = Language::ALL.fetch(language)
    *_, required, app = commands.server
    arguments = [required, app, "-c", threads.to_s]
    return start([*commands.server, *arguments.last(2)], { **commands.variables, **variables }) unless ForkServers::PROGRAMS.key?(language)

    fork(language, variables, arguments)
  end

  # Of a preloaded parent. @param program [String, nil] in place of the command
  def fork(language, variables, arguments, program = nil)
    log = next_log
    FileUtils.touch(log)
    add(ChildProcess.new(@fork_servers.fork(language, variables, arguments, log, program), log, journal))
  end

  # @return [String] the path
  def nginx_configuration(port, template = "#{CProgram::KIT}/web_app.conf")
    words = { root: CProgram::ROOT, folder:, port:, redis: redis.url, user: Process.uid.zero? ? "user root;" : "",
              certificates: ENV.fetch("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt") }
    text = File.read(template).gsub(/@(\w+)@/) { words.fetch($1.to_sym) }
    File.join(folder, "nginx-#{port}.conf").tap { |path| File.write(path, text) }
  end

  def next_log = @lock.synchronize { File.join(folder, "log#{@logs += 1}") }

  def add(process)
    @lock.synchronize do
      @processes << process
      @living[process.pid] = process
    end
  end
end
