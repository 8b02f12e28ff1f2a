# frozen_string_literal: true

require "securerandom"
require "set"
require "socket"
require "seriatim/server/host"
require "seriatim/server/health"

module Seriatim
  # A node inside this process: takes its share of the shards and runs their jobs on threads of its own.
  #
  #   server = Seriatim::Server.new(workers: [OrderWorker]).start
  #   server.stop
  #
  # The command `seriatim` is one with signals around it.
  class Server
    BOOT_SECONDS = 10 # how long a start waits for Redis
    LEAVE_SECONDS = 0.5 # how long the end of a process without a stop does

    # @api private
    # A worker as the server finds it: `module` as it was at the start, `current` as its constant names it now.
    Ref = Struct.new(:module, :reload) do
      def current = reload ? Object.const_get(self.module.name) : self.module
    end

    class << self
      # The process is about to end: threads that it kills need no successors.
      # @api private
      attr_reader :exiting

      # The servers of this process that have been started and not stopped: process-wide state, so that a process that ends, and
      # the dashboard, reach them.
      def running = @running ||= []

      # Callables (threads) that look at a server that is about to start, and may warn.
      # @api private
      def checks = @checks ||= []

      # Why a server of this process has stopped working, for /livez; nil: all servers work, or this process has none.
      # @api private
      # @return [String, nil]
      def stalled = running.any?(&:failure) ? "the server's heartbeat thread ended" : nil

      # @api private
      def exit_process
        @exiting = true
        running.each(&:leave)
      end
    end
    at_exit { exit_process }

    # @return [String] the node's id, unique for ever
    attr_reader :id

    # @param workers [Array, #call, nil] as in Seriatim.workers, whose value is the default
    # @param queues [Array<String, Symbol>, nil] only the workers of these queues
    # @param threads [Integer, nil] Seriatim.threads_per_node
    # @raise [Invalid] queues is no list of names, or threads no number of them
    # @raise [UsageError] no worker, one without perform, two of one queue, an unknown queue
    def initialize(workers: nil, queues: nil, threads: nil)
      @threads_count = threads.nil? ? Seriatim.threads_per_node : Validate.integer("threads", threads, 1..10_000)
      @queues = Validate.queue_names("queues", queues) unless queues.nil?
      @workers = Workers.chosen(workers, @queues)
      @refs = @workers.map { |worker| ref(worker) }
      @generation = Native.generation
      @id = "#{Socket.gethostname.gsub(/[^A-Za-z0-9_.-]/, "-")[0, 24]}-#{Process.pid}-#{SecureRandom.hex(8)}"
      @lock = Mutex.new
      @stop_lock = Mutex.new
      @threads = []
      @complaints = Set.new # kinds of errors that error_once has logged
      @stopping = false
    end

    # Calls on_server_init, looks up the queues, then claims and runs. Returns when the threads have been started.
    # @yield before the first claim (for the command, whose signals mean something else from then on)
    # @return [self]
    # @raise [Invalid] a middleware, scheduler or splitter is not callable; nothing has been started then
    # @raise [Error] Redis does not answer or refuses a queue, or there is no thread or descriptor; nothing has been started then
    # @raise [Closed] it was started before, or another process made it
    def start
      raise Closed, "the server belongs to the process that created it; create another one after fork" if forked?
      raise Closed, "a server starts once" if @runner

      Seriatim.on_server_init&.call
      event_workers.each { |worker| add(worker) } # whose handlers on_server_init has added
      Server.checks.each { |check| check.call(@threads_count) }
      check_hooks
      @url = RedisUrl.resolve
      @shards = look_up_shards(@workers)
      Health.check(@url)
      @groups = Splitters.groups(@splitter, @shards, @threads_count)
      @schedulers = [@scheduler, *Array.new((@groups || [nil]).size - 1) { Schedulers.build }]
      hosts = start_runner { yield if block_given? }
      Server.running << self
      start_threads(hosts)
      serve_late
      Log.info("start", "node #{@id} with #{@threads.size} threads runs #{@workers.map(&:queue_name).join(", ")} on #{@redacted_url}")
      self
    end

    # Claims no more jobs; running jobs go on. An operator may ask for it, too ({NodeCommands#quiet_node}).
    # @return [self]
    # @raise [Closed] it has not started
    def quiet
      started_runner.quiet
      Log.info("quiet", "no more jobs are claimed")
      self
    end

    # Claims no more, waits up to `timeout` seconds for running jobs, hands the rest back, releases all shards and leaves. If
    # another thread is stopping the server already, this waits for that stop.
    # @param timeout [Numeric] seconds
    # @return [Boolean] everything finished in time
    # @raise [Invalid] the timeout is not from 0 to 86,400
    def stop(timeout = Seriatim.stop_timeout)
      Validate.seconds("timeout", timeout, 0.0..86_400.0)
      return true unless @runner

      @stopping = true
      @stop_lock.synchronize { @clean.nil? ? @clean = finish(timeout) : @clean }
    rescue Closed
      true # in a child that a job forked
    end

    # The process ends without a stop, or its stop was interrupted: hands back what runs, as far as Redis takes it soon enough.
    # @api private
    def leave
      return if forked? || !@clean.nil?

      @stopping = true
      @runner.stop
      @runner.abandon
      await(LEAVE_SECONDS) { @runner.stopped? }
    rescue Closed
      nil
    end

    # Runs one more worker from now on, or one that was withdrawn, unless this server was told to run other queues.
    # @api private
    # @raise [Error] Redis cannot be reached or refuses the queue
    def serve(worker)
      return unless may_run?(worker)

      shards = look_up_shards([worker])
      add_to_runner(worker)
      @lock.synchronize { @shards |= shards }
      Log.info("start", "node #{@id} runs #{worker.queue_name}, too")
    rescue Closed
      nil # it stops
    end

    # Does it run a worker of this queue?
    # @api private
    def runs?(queue) = @workers.any? { |worker| worker.queue_name == queue }

    # Runs the worker no more: claims nothing of its queue, and hands the shards over when what runs has finished.
    # @api private
    def withdraw(worker)
      number = @workers.index(worker) or return
      Log.info("stop", "node #{@id} runs #{worker.queue_name} no more") if @runner.withdraw(number)
    rescue Closed
      nil # it stops
    end

    # @return [Boolean]
    def stopping? = @stopping

    # This process is a child of the one that made the server.
    # @api private
    def forked? = Native.generation != @generation

    # Threads that end now were ended with the server.
    # @api private
    def leaving? = @stopping || Server.exiting

    # @return [Boolean]
    def running? = !@runner.nil? && !@stopping

    # The error that ended the heartbeat thread, if one did: nothing renews the lease any more, so the process should end.
    # @return [Exception, nil]
    attr_reader :failure

    # Figures of the node: commands, processed, failed, refused, shards, running, claimed, connected.
    # @return [Hash]
    # @raise [Closed] it has not started
    def stats = started_runner.stats

    # @api private
    attr_reader :runner

    # @api private
    def worker(number) = @refs.fetch(number)

    # @api private
    def shards_count = @shards.size

    # Logs an error of a hook the first time that one of its kind occurs in this server: a scheduler is called for every
    # delivery and would flood the log.
    # @api private
    def error_once(kind, text)
      first = @lock.synchronize { @complaints.add?(kind) }
      Log.error("hook", text) if first
    end

    # A host thread for the group. One that user code ended is replaced.
    # @api private
    def spawn(host)
      @lock.synchronize { @threads << Thread.new { run_host(host) } }
    end

    private

    def started_runner = @runner || raise(Closed, "the server has not started")

    # ---- start

    def ref(worker) = Ref.new(worker, Seriatim.reload_workers && worker.name)

    # The workers of events that this server is to run and does not run yet.
    def event_workers = (Worker.of_events - @workers).select { |worker| may_run?(worker) }

    def may_run?(worker) = @queues.nil? || @queues.include?(worker.queue_name)

    def add(worker)
      @refs << ref(worker)
      @workers << worker
    end

    # Handlers of events that another thread added while this started. Its call of `on` has returned, so errors are logged.
    def serve_late
      Worker.with_events do
        event_workers.each do |worker|
          serve(worker)
        rescue Error, Invalid => e
          Log.error("start", "#{worker.queue_name} is not run: #{Log.describe(e)}")
        end
      end
    end

    # The first delivery may come before the runner has answered, so its number must lead to the worker before that.
    def add_to_runner(worker)
      added = !@workers.include?(worker)
      add(worker) if added
      @runner.worker(worker.queue_settings)
    rescue StandardError
      [@refs, @workers].each(&:pop) if added
      raise
    end

    # Whatever can be refused before Redis is asked; on_server_init may have changed it.
    def check_hooks
      Validate.callables("server_middlewares", Seriatim.server_middlewares)
      Validate.callables("client_middlewares", Seriatim.client_middlewares)
      @splitter = Splitters.build
      @scheduler = Schedulers.build
    end

    # The shards as Redis has them, which it does even for the first start of a queue.
    def look_up_shards(workers)
      connection = Connection.new(@url, Seriatim.namespace, RedisUrl.named_by)
      @redacted_url = connection.url
      workers.flat_map do |worker|
        Array.new(connection.layout(worker.queue_settings, limit: BOOT_SECONDS)) { |index| Shard.new(worker, index) }
      end
    ensure
      connection&.close
    end

    # A runner that did not start is forgotten: a stop would wait for it.
    def start_runner
      @runner = native_runner
      hosts = split
      yield
      @runner.start
      started = true
      hosts
    rescue ConnectionError => e # Redis has answered; it is a thread or a descriptor that is missing
      raise Error, e.message
    ensure
      forget_runner unless started
    end

    def forget_runner
      @runner&.close
      @runner = nil
    end

    def start_threads(hosts)
      @heartbeat_thread = Thread.new { heartbeat_loop }
      hosts.each { |host| spawn(host) }
    rescue ThreadError => e # there are no more
      stop(0)
      raise Error, e.message
    end

    def native_runner
      milliseconds = [Seriatim.lease_time, Seriatim.poll_interval].map { |seconds| (seconds * 1000).to_i }
      threads = @groups ? @groups.size : @threads_count
      runner = Native::Runner.new(@url, Seriatim.namespace, "seriatim-server", @id, description, *milliseconds, threads, builtin(@scheduler))
      @workers.each { |worker| runner.worker(worker.queue_settings) }
      runner
    end

    def description = "#{Socket.gethostname} pid #{Process.pid} ruby #{RUBY_VERSION} seriatim #{VERSION}"

    # A host for each thread.
    def split
      return Array.new(@threads_count) { Host.new(self, 0, @scheduler) } unless @groups

      numbers = @workers.each_with_index.to_h
      @groups.zip(@schedulers).map do |group, scheduler|
        number = @runner.group(builtin(scheduler), group.map { |shard| [numbers.fetch(shard.worker), shard.index] })
        Host.new(self, number, scheduler)
      end
    end

    # The core's number; of a scheduler of the application's own the core knows nothing.
    def builtin(scheduler) = (scheduler.is_a?(Schedulers::Builtin) ? scheduler : Schedulers::LAG).number

    # ---- life

    def run_host(host)
      ended = false
      Thread.current.name = "seriatim #{host.group}"
      Thread.current.report_on_exception = false
      host.run
      ended = true
    rescue Exception => e # rubocop:disable Lint/RescueException
      raise if forked?

      Log.error("thread", "ended by #{Log.describe(e)}; another thread takes its place")
    ensure
      unless forked?
        spawn(host) unless ended || leaving?
        @lock.synchronize { @threads.delete(Thread.current) }
      end
    end

    # Shows that this interpreter answers, and writes what the node reports into the log.
    def heartbeat_loop
      Thread.current.name = "seriatim heartbeat"
      interval = [Seriatim.lease_time / 5.0, 1.0].min
      until @closed
        @runner.pulse
        apply_command(@runner.asked)
        log_events
        sleep interval
      end
    rescue Closed
      nil
    rescue Exception => e # rubocop:disable Lint/RescueException
      @failure = e
    ensure
      @heartbeat_thread = Thread.new { heartbeat_loop } unless @closed || @failure || Server.exiting || forked? # user code ended it
    end

    # Does what an operator asked of this node ({NodeCommands}), as the signals TSTP and TERM do. A process of the command
    # `seriatim` ends once the server has stopped.
    # @param command [Symbol, nil] :quiet, :stop; nil: nothing was asked
    def apply_command(command)
      Log.info(command.name, "requested from the dashboard") if command && !@stopper
      quiet if command == :quiet
      @stopper ||= Thread.new { stop } if command == :stop
    end

    LEVELS = { lease: Logger::INFO, morgue: Logger::INFO, stale: Logger::INFO, lost: Logger::WARN, refused: Logger::WARN, recovered: Logger::WARN,
               warning: Logger::WARN, failures: Logger::WARN }.freeze
    NAMES = { recovered: "recover", failures: "fail" }.freeze
    private_constant :LEVELS, :NAMES

    def log_events
      while (event = @runner.event)
        log_event(*event)
      end
    end

    def log_event(kind, number, text)
      return Log.write(number.positive? ? Logger::INFO : Logger::WARN, "link", text) if kind == :link

      Log.write(LEVELS.fetch(kind), NAMES.fetch(kind, kind.name), text, n: number.positive? ? number : nil)
    end

    # ---- end

    def finish(timeout)
      @runner.stop
      clean = await(timeout) { @runner.stopped? && @threads.none?(&:alive?) }
      unfinished = @runner.unfinished
      abandon unless clean
      close
      Log.info("stop", clean ? "stopped" : "stopped; what still ran after #{timeout} s: #{unfinished}")
      clean
    end

    def await(seconds)
      deadline = monotonic + seconds
      until (done = yield) || monotonic >= deadline
        sleep 0.005
      end
      done
    end

    # The threads get a second to leave user code; the process may end with them in it.
    def abandon
      @runner.abandon
      await(3) { @runner.stopped? } # which it is after 2 s, whether Redis answers or not
      threads = @lock.synchronize { @threads.dup }
      threads.each(&:kill)
      await(1) { threads.none?(&:alive?) }
    end

    def close
      @closed = true
      Server.running.delete(self)
      @heartbeat_thread.wakeup if @heartbeat_thread&.alive?
      @heartbeat_thread&.join(1)
    rescue ThreadError
      nil # it ended just now
    ensure
      log_events
      @runner.close
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
