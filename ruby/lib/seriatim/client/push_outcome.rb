# frozen_string_literal: true

module Seriatim
  # What a push did: `added` jobs made a new waiting id, `folded` ones united with an id that waits, `refused` ones
  # were turned away by on_waiting :reject or :unique; `refused_at` are their places in the call, from 0; `scheduled` ones arrive later, at
  # their deliver_at; `stale` ones had a score that was not above the one that is remembered of their id (remember_score), and are not kept. `handles`: one a job, where the push was given `handle: true` or has a job with deliver_at; else empty. A handle names
  # the payload for actions.cancel and actions.reschedule; a job that was folded into an equal payload has that one's, nil: it was not kept.
  PushResult = Struct.new(:added, :folded, :refused, :refused_at, :scheduled, :stale, :handles, keyword_init: true)

  # What pushes and pipelines share: how long they may take, and what became of them.
  # @api private
  module PushOutcome
    # What is said of one push. deadline: of the monotonic clock.
    Limits = Struct.new(:replicas, :wait_timeout, :deadline, :handle) do
      def wait = [replicas, wait_timeout]
      def left = [deadline - PushOutcome.monotonic, SHORTEST].max
    end
    SHORTEST = 0.001 # seconds: what the core takes for a push whose time is over

    module_function

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Each connection of the pool finds the same difference.
    def warn_once(text)
      Log.warn("warning", text) unless (@warned ||= {}).key?(text)
      @warned[text] = true
    end

    def result(added, folded, places, scheduled = 0, stale = 0, handles = [])
      PushResult.new(added: added, folded: folded, refused: places.size, refused_at: places, scheduled: scheduled, stale: stale,
                     handles: handles)
    end
  end
  private_constant :PushOutcome
end
