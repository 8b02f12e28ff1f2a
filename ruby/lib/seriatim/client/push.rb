# frozen_string_literal: true

module Seriatim
  # What a push did: `added` jobs made a new waiting id, `folded` ones united with an id that waits, `refused` ones
  # were turned away by on_waiting :reject or :unique; `refused_at` are their places in the call, from 0; `scheduled` ones arrive later, at
  # their deliver_at; `stale` ones had a score that was not above the one that is remembered of their id (remember_score), and are not kept. `handles`: one a job, where the push was given `handle: true` or has a job with deliver_at; else empty. A handle names
  # the payload for actions.cancel and actions.reschedule; a job that was folded into an equal payload has that one's, nil: it was not kept.
  PushResult = Struct.new(:added, :folded, :refused, :refused_at, :scheduled, :stale, :handles, keyword_init: true)

  # Pushes jobs.
  # @api private
  module Push
    # What is said of one push. deadline: of the monotonic clock.
    Limits = Struct.new(:replicas, :wait_timeout, :deadline, :handle) do
      def wait = [replicas, wait_timeout]
      def left = [deadline - Push.monotonic, SHORTEST].max
    end
    SHORTEST = 0.001 # seconds: what the core takes for a push whose time is over

    module_function

    # Checks everything, passes the jobs through the client middlewares, checks again and writes.
    # @param wait_replicas [Integer, nil] nil: as the module's settings say; so for the others
    # @return [PushResult]
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
      result || self.result(0, 0, [])
    end

    # @return [Array<Hash>] the same jobs, with Symbols as keys
    # @raise [Invalid]
    def checked(worker, jobs)
      jobs = Native.read_jobs(jobs)
      Native.check_jobs(jobs, payloads(worker, jobs))
      jobs
    end

    def limits(wait_replicas, wait_timeout, push_timeout, handle)
      seconds = push_timeout ? Validate.push_timeout(push_timeout) : Seriatim.push_timeout
      Limits.new(wait_replicas ? Validate.wait_replicas(wait_replicas) : Seriatim.wait_replicas,
                 wait_timeout ? Validate.wait_timeout(wait_timeout) : Seriatim.wait_timeout, monotonic + seconds, Validate.flag("handle", handle))
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def write(worker, jobs, limits)
      return result(0, 0, []) if jobs.is_a?(Array) && jobs.empty?

      payloads = payloads(worker, jobs)
      *counts, shortage, warning, scheduled, stale, handles = Pool.current.with(limits.left) do |connection|
        connection.push(worker.queue_settings, jobs, payloads, limits.wait, limits.left, limits.handle)
      end
      warn_once(warning) if warning
      result = result(*counts, scheduled, stale, handles)
      shortage ? raise(NotReplicated.new(shortage, result)) : result
    end

    # Each connection of the pool finds the same difference.
    def warn_once(text)
      Log.warn("warning", text) unless (@warned ||= {}).key?(text)
      @warned[text] = true
    end

    # @return [Array<String>, nil] nil: the native writer of JSON has them
    def payloads(worker, jobs)
      codec = worker.payload_codec
      Jobs.payloads(Native.read_jobs(jobs), codec) unless codec.equal?(Codec::JSON)
    end

    def result(added, folded, places, scheduled = 0, stale = 0, handles = [])
      PushResult.new(added: added, folded: folded, refused: places.size, refused_at: places, scheduled: scheduled, stale: stale,
                     handles: handles)
    end
  end
  private_constant :Push
end
