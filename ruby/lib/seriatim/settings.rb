# frozen_string_literal: true

module Seriatim
  # The attributes of the module Seriatim. Each is checked when it is set.
  module Settings
    IDENTITY = ->(value) { value }
    private_constant :IDENTITY

    # What the command runs: modules that extend {Worker}, their names (found when the server starts, so they may be
    # autoloaded), or a callable that gives such a list. Never set: every module that extended Worker, and
    # every subclass of such; not a class without perform that others are derived from.
    # @return [Array, #call]
    def workers = @workers ||= []

    def workers=(list)
      @workers_set = true
      @workers = list.respond_to?(:call) ? list : Validate.list("workers", list)
    end

    # Fallback polling interval in seconds: nodes are normally woken by pub/sub, this catches a missed message. 1.
    attr_reader :poll_interval

    def poll_interval=(seconds)
      @poll_interval = Validate.seconds("poll_interval", seconds, 0.01..3600.0)
    end

    # How many threads of a server process run jobs. 5.
    attr_reader :threads_per_node

    def threads_per_node=(count)
      @threads_set = true
      @threads_per_node = Validate.integer("threads_per_node", count, 1..10_000)
    end

    # A Redis URL, or a callable that gives one; nil: SERIATIM_REDIS_URL, the variable that REDIS_PROVIDER names,
    # REDIS_URL, or else a private Redis ({PrivateRedis}).
    attr_reader :redis

    def redis=(url)
      Validate.refuse("redis", "a URL (String), a callable that gives one, or nil", url) unless url.nil? || url.is_a?(String) || url.respond_to?(:call)
      @redis = url.is_a?(String) ? Validate.redis_url("redis", url) : url
      connections_changed
    end

    # How many connections a process uses for pushes and queries. 5.
    attr_reader :client_pool_size

    def client_pool_size=(count)
      @client_pool_size = Validate.integer("client_pool_size", count, 1..10_000)
      connections_changed
    end

    # Seconds to wait for a free connection before {PoolTimeout}. 5.
    attr_reader :pool_timeout

    def pool_timeout=(seconds)
      @pool_timeout = Validate.seconds("pool_timeout", seconds, 0.0..3600.0)
      connections_changed
    end

    # Seconds after which a push fails, from its call to its return, pool_timeout and wait_timeout included. 10; from 0.1 to 50.
    attr_reader :push_timeout

    def push_timeout=(seconds)
      @push_timeout = Validate.push_timeout(seconds)
    end

    # How many replicas of Redis must have a push before it returns; too few: {NotReplicated}. 0: it asks none.
    attr_reader :wait_replicas

    def wait_replicas=(count)
      @wait_replicas = Validate.wait_replicas(count)
    end

    # Seconds that a push waits for its replicas, for each 256 KB of jobs. 1.
    attr_reader :wait_timeout

    def wait_timeout=(seconds)
      @wait_timeout = Validate.wait_timeout(seconds)
    end

    # Callables (worker, batch, &block) around every delivery; the first is outermost. Not calling the block means
    # that the jobs are done.
    attr_reader :server_middlewares

    def server_middlewares=(list)
      @server_middlewares = Validate.callables("server_middlewares", list)
    end

    # Callables (worker, jobs, &block) around every push; the first is outermost. They may change the job hashes
    # (keys are Symbols). Not calling the block means that nothing is written.
    attr_reader :client_middlewares

    def client_middlewares=(list)
      @client_middlewares = Validate.callables("client_middlewares", list)
    end

    # Called once in each server process, after the application is loaded and before any job.
    attr_reader :on_server_init

    def on_server_init=(hook)
      @on_server_init = Validate.callable("on_server_init", hook, none: true)
    end

    # Called with the error that ends a server process.
    attr_reader :last_words

    def last_words=(hook)
      @last_words = Validate.callable("last_words", hook, none: true)
    end

    # Gives the scheduler of a group of shards: {#build_lag_scheduler} (default), {#build_seq_scheduler},
    # {#build_priority_scheduler}, or a callable that gets the list of candidate shards (worker, index, lag, size;
    # oldest due first) and returns one of them, or nil.
    attr_reader :build_scheduler

    def build_scheduler=(builder)
      @build_scheduler = Validate.callable("build_scheduler", builder)
    end

    # Gives the splitter: {#build_balanced_splitter} (default), {#build_default_splitter},
    # {#build_by_node_splitter}, or a callable that gets the list of shards (worker, index) and returns groups of
    # them; each group has a thread and a scheduler of its own.
    attr_reader :build_splitter

    def build_splitter=(builder)
      @build_splitter = Validate.callable("build_splitter", builder)
    end

    # The codec of workers that name none: callables Object -> String and String -> Object. Both nil (default):
    # canonical JSON.
    attr_reader :dump_payload, :load_payload

    def dump_payload=(codec)
      @dump_payload = Validate.callable("dump_payload", codec, none: true)
    end

    def load_payload=(codec)
      @load_payload = Validate.callable("load_payload", codec, none: true)
    end

    # Exception -> String, what is kept of a failure. "Class: message" and the first ten lines of the backtrace, at most 4 KiB.
    attr_reader :format_error

    def format_error=(format)
      @format_error = Validate.callable("format_error", format)
    end

    # String -> String and back around stored errors, to compress them, say.
    attr_reader :dump_error, :load_error

    def dump_error=(codec)
      @dump_error = Validate.callable("dump_error", codec)
    end

    def load_error=(codec)
      @load_error = Validate.callable("load_error", codec)
    end

    # Was load_error set? Else errors are stored as they are.
    # @api private
    def loads_errors? = !@load_error.equal?(IDENTITY)

    # Seconds without a heartbeat after which other nodes take over the shards of a node. 10.
    attr_reader :lease_time

    def lease_time=(seconds)
      @lease_time = Validate.seconds("lease_time", seconds, 0.2..3600.0)
    end

    # Seconds that a stopping server waits for running jobs. 25.
    attr_reader :stop_timeout

    def stop_timeout=(seconds)
      @stop_timeout = Validate.seconds("stop_timeout", seconds, 0.0..86_400.0)
    end

    # What every key in Redis begins with. "seriatim".
    attr_reader :namespace

    def namespace=(name)
      name = Validate.text("namespace", name, 1..128)
      Validate.refuse("namespace", "a text without zero bytes", name) if name.b.include?("\0")
      @namespace = name
      connections_changed
    end

    # A Logger. Ours writes one line an event to standard output ({Log}).
    def logger = Log.logger

    def logger=(logger)
      Log.logger = logger
    end

    # Whether each delivery finds its worker's constant anew; the Rails integration sets it.
    # @api private
    attr_accessor :reload_workers

    # @api private
    def workers_set? = @workers_set || (@workers.is_a?(Array) && !@workers.empty?)

    # @api private
    def threads_set? = @threads_set

    # Sets every attribute back to its default; for tests.
    def reset_settings
      @workers = []
      @workers_set = @threads_set = @reload_workers = false
      reset_numbers
      reset_hooks
      reset_codecs
      Log.logger = Log.default
      connections_changed
    end

    private

    # Called when other connections are needed. seriatim.rb overrides it, because the pools read these settings: if this file
    # named them, each of the two would need the other.
    def connections_changed; end

    def reset_numbers
      @poll_interval = 1
      @threads_per_node = 5
      @client_pool_size = 5
      @pool_timeout = 5
      @push_timeout = 10
      @wait_replicas = 0
      @wait_timeout = 1
      @lease_time = 10
      @stop_timeout = 25
      @namespace = "seriatim"
      @redis = nil
    end

    def reset_hooks
      @server_middlewares = []
      @client_middlewares = []
      @on_server_init = @last_words = nil
      @build_scheduler = -> { build_lag_scheduler }
      @build_splitter = -> { build_balanced_splitter }
    end

    def reset_codecs
      @dump_payload = @load_payload = nil
      @format_error = Log.method(:format_error)
      @dump_error = @load_error = IDENTITY
    end
  end
  private_constant :Settings
end
