# frozen_string_literal: true

# Workers, servers and waits of the examples.
module JobsHelper
  # What a worker was given: ids and payloads with the times around it.
  Run = Struct.new(:payloads, :started, :ended, keyword_init: true)

  # A worker that records its runs; the block, if any, is its perform (payloads_by_id, batch).
  def worker(name = "Recorder", **settings, &perform)
    Module.new do
      extend Seriatim::Worker
      self.queue_name = name
      settings.each { |field, value| public_send(:"#{field}=", value) }

      @runs = Thread::Queue.new
      @perform = perform
      singleton_class.attr_reader :runs

      def self.retry_in(_count) = 0.05

      def self.perform(payloads_by_id, batch)
        run = JobsHelper::Run.new(payloads: payloads_by_id, started: Time.now.to_f)
        @perform&.call(payloads_by_id, batch)
      ensure
        run.ended = Time.now.to_f
        @runs << run
      end
    end
  end

  # A worker for which nothing but perform is called: it takes no batch, and no line is logged of a job that is done.
  def plain_worker(name = "Plain", **settings, &perform)
    Seriatim.logger.level = Logger::INFO
    Module.new do
      extend Seriatim::Worker
      self.queue_name = name
      settings.each { |field, value| public_send(:"#{field}=", value) }
      define_singleton_method(:perform) { |payloads_by_id| perform.call(payloads_by_id) }
      define_singleton_method(:retry_in) { |_count| 0.05 }
    end
  end

  # A running server; stopped after the example.
  def serve(*workers, **options)
    server = Seriatim::Server.new(workers: workers, **options)
    (@servers ||= []) << server
    server.start
  end

  def stop_servers
    (@servers || []).each { |server| server.stop(1) }
    @servers = []
  end

  # Polls until the block gives something true, which it returns.
  def eventually(seconds = 60)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    until (value = yield)
      raise "not within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.01
    end
    value
  end

  # The next `count` runs.
  def runs(worker, count = 1, seconds: 60)
    Timeout.timeout(seconds) { Array.new(count) { worker.runs.pop } }
  end

  # Until nothing waits and nothing runs.
  def drained(worker, seconds: 60)
    eventually(seconds) { worker.metrics.values_at(:length, :busy).sum.zero? }
  end

  # Yields the URL of a user who may do all but what the rules take away.
  def as_limited_user(*rules)
    REDIS.call("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", *rules)
    yield REDIS.url.sub("unix://", "unix://limited:secret@")
  ensure
    REDIS.call("ACL", "DELUSER", "limited")
  end

  # The environment of a process that looks up the name "slow.test" for that long, in vain.
  def slow_resolver(folder, milliseconds:)
    library = File.join(folder, "slow_resolver.so")
    source = File.expand_path("../../../spec/support/slow_resolver.c", __dir__)
    system(ENV.fetch("CC", "cc"), "-shared", "-fPIC", source, "-o", library) or raise "#{source} is not compiled"
    { "LD_PRELOAD" => [ENV.fetch("LD_PRELOAD", nil), library].compact.join(" "), "SLOW_RESOLVER_MS" => milliseconds.to_s }
  end

  def log = @log.string
  def now = Time.now.to_f
end
