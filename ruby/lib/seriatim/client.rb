# frozen_string_literal: true

module Seriatim
  # What a push did: `added` jobs made a new waiting id, `folded` ones united with an id that waits, `refused` ones
  # were turned away by on_waiting :reject; `refused_at` are their places in the call, from 0.
  PushResult = Struct.new(:added, :folded, :refused, :refused_at, keyword_init: true)

  # Pushes jobs.
  # @api private
  module Client
    module_function

    # Checks everything, passes the jobs through the client middlewares, checks again and writes.
    # @param wait_replicas [Integer, nil] nil: as the module's settings say; so for the other
    # @return [PushResult]
    def push(worker, jobs, wait_replicas: nil, wait_timeout: nil)
      wait = [wait_replicas ? Check.wait_replicas(wait_replicas) : Seriatim.wait_replicas,
              wait_timeout ? Check.wait_timeout(wait_timeout) : Seriatim.wait_timeout]
      chain = Seriatim.client_middlewares
      return write(worker, jobs, wait) if chain.empty?

      jobs = Native.read_jobs(jobs)
      Native.check_jobs(jobs, payloads(worker, jobs))
      result = nil
      Middlewares.call("client_middlewares", chain, worker, jobs) { result = write(worker, jobs, wait) }
      result || self.result(0, 0, [])
    end

    def write(worker, jobs, wait)
      return result(0, 0, []) if jobs.is_a?(Array) && jobs.empty?

      payloads = payloads(worker, jobs)
      *counts, shortage, warning = Pool.current.with { |connection| connection.push(worker.queue_settings, jobs, payloads, wait) }
      warn_once(warning) if warning
      result = result(*counts)
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

    def result(added, folded, places)
      PushResult.new(added: added, folded: folded, refused: places.size, refused_at: places)
    end
  end
  private_constant :Client
end
