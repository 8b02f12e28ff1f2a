# frozen_string_literal: true

module Seriatim
  # Pushes jobs.
  # @api private
  module Push
    module_function

    # Checks everything, passes the jobs through the client middlewares, checks again and writes.
    # @param wait_replicas [Integer, nil] nil: as the module's settings say; so for the others
    # @return [PushResult, PushFuture]
    def call(worker, jobs, wait_replicas: nil, wait_timeout: nil, push_timeout: nil, handle: false)
      limits = limits(wait_replicas, wait_timeout, push_timeout, handle)
      return pass(worker, jobs, limits) unless Notifications.notifier

      Notifications.instrument("push", { worker: worker, queue: worker.queue_name, jobs: jobs }) do |payload|
        payload[:result] = pass(worker, jobs, limits)
      end
    end

    # Through the middlewares.
    def pass(worker, jobs, limits)
      chain = Seriatim.client_middlewares
      return write(worker, jobs, limits) if chain.empty?

      jobs = checked(worker, jobs)
      result = nil
      Middlewares.call("client_middlewares", chain, worker, jobs) { result = write(worker, jobs, limits) }
      result || PushOutcome.result(0, 0, [])
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
      pipeline = Pipeline.current
      return pipeline.add(worker, jobs, limits) if pipeline
      return PushOutcome.result(0, 0, []) if jobs.is_a?(Array) && jobs.empty?

      payloads = payloads(worker, jobs)
      *counts, shortage, warning, scheduled, stale, handles = Pool.current.with(limits.left) do |connection|
        connection.push(worker.queue_settings, jobs, payloads, limits.wait, limits.left, limits.handle)
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
