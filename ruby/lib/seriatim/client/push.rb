# frozen_string_literal: true

module Seriatim
  # Pushes jobs.
  # @api private
  module Push
    WAITS = :seriatim_after_commit # of the fiber: the worker whose pushes wait for a commit
    private_constant :WAITS

    module_function

    # Checks everything, passes the jobs through the client middlewares, checks again and writes.
    # @param wait_replicas [Integer, nil] nil: as the module's settings say; so for the others
    # @return [PushResult, PushFuture]
    def call(worker, jobs, wait_replicas: nil, wait_timeout: nil, push_timeout: nil, handle: false)
      limits = limits(wait_replicas, wait_timeout, push_timeout, handle)
      return pass(worker, jobs, limits) if Notifications.notifier.nil? || waits?(worker)

      noted(worker, jobs) { pass(worker, jobs, limits) }
    end

    # Pushes of the worker in the block are checked, pass the middlewares and are kept now. They are written after the commit.
    # @return what the block returned; of a push PushResult, or nil: it waits for a commit
    def after_commit(worker)
      outer = Thread.current[WAITS]
      Thread.current[WAITS] = worker
      yield
    ensure
      Thread.current[WAITS] = outer
    end

    def waits?(worker) = Thread.current[WAITS].equal?(worker)

    def noted(worker, jobs)
      Notifications.instrument("push", { worker: worker, queue: worker.queue_name, jobs: jobs }) { |payload| payload[:result] = yield }
    end

    # Through the middlewares.
    def pass(worker, jobs, limits)
      chain = Seriatim.client_middlewares
      return write(worker, jobs, limits) if chain.empty?

      jobs = checked(worker, jobs)
      result = PushOutcome.result(0, 0, [])
      Middlewares.call("client_middlewares", chain, worker, jobs) { result = write(worker, jobs, limits) }
      result
    end

    # @return [Array<Hash>] the same jobs, with Symbols as keys
    # @raise [Invalid]
    def checked(worker, jobs)
      jobs = Native.read_jobs(jobs)
      Native.check_jobs(jobs, payloads(worker, jobs))
      jobs
    end

    def limits(wait_replicas, wait_timeout, push_timeout, handle)
      seconds = push_timeout.nil? ? Seriatim.push_timeout : Validate.push_timeout(push_timeout)
      PushOutcome::Limits.new(wait_replicas.nil? ? Seriatim.wait_replicas : Validate.wait_replicas(wait_replicas),
                              wait_timeout.nil? ? Seriatim.wait_timeout : Validate.wait_timeout(wait_timeout),
                              PushOutcome.monotonic + seconds, Validate.flag("handle", handle))
    end

    def write(worker, jobs, limits)
      return write_after_commit(worker, jobs, limits) if waits?(worker)

      pipeline = Pipeline.current
      return pipeline.add(worker, jobs, limits) if pipeline
      return PushOutcome.result(0, 0, []) if jobs.is_a?(Array) && jobs.empty?

      send_jobs(worker.queue_settings, jobs, payloads(worker, jobs), limits)
    end

    def write_after_commit(worker, jobs, limits)
      kept = Connection.unopened { |connection| KeptJobs.of(worker, jobs, connection) }
      seconds = limits.left
      result = nil
      AfterCommit.call do
        limits = limits.dup.tap { |later| later.deadline = PushOutcome.monotonic + seconds }
        result = after_commit(nil) { noted(worker, jobs) { write_kept(kept, limits) } }
      end
      result
    end

    def write_kept(kept, limits)
      pipeline = Pipeline.current
      return pipeline.join(kept, limits) if pipeline

      kept.jobs.empty? ? PushOutcome.result(0, 0, []) : send_jobs(*kept, limits)
    end

    def send_jobs(settings, jobs, payloads, limits)
      *counts, shortage, warning, scheduled, stale, handles = Pool.current.with(limits.left) do |connection|
        connection.push(settings, jobs, payloads, limits.wait, limits.left, limits.handle)
      end
      PushOutcome.warn_once(warning) if warning
      result = PushOutcome.result(*counts, scheduled, stale, handles)
      shortage ? raise(NotReplicated.new(shortage, result)) : result
    end

    # @return [Array<String>, nil] nil: the native writer of JSON has them
    def payloads(worker, jobs)
      codec = worker.payload_codec
      Jobs.payloads(Native.read_jobs(jobs), codec) unless codec.equal?(Codec::JSON)
    end
  end
  private_constant :Push
end
