# frozen_string_literal: true

module Seriatim
  # What an operator does to a worker's queue: `OrderWorker.actions`. Each answers with the number of ids that it
  # changed (pause and resume: of shards). "All" means what is there when the action begins.
  class Actions
    ALL = { perform_all_jobs_now: 0, kill_all_failed_jobs: 1, delete_all_failed_jobs: 2, morgue_queue_up_all_jobs: 3,
            morgue_delete_all_jobs: 4, pause: 5, resume: 6, unpark_all: 13, perform_all_failed_jobs_now: 17 }.freeze
    SOME = { delete: 7, morgue_queue_up: 8, morgue_delete: 9, park: 10, unpark: 11, perform_now: 12, kill: 18 }.freeze
    ONE = { drop_payload: 14, morgue_drop_payload: 15 }.freeze
    DELETE_QUEUE = 16
    private_constant :ALL, :SOME, :ONE, :DELETE_QUEUE

    def initialize(worker)
      @worker = worker
    end

    # @!method perform_all_jobs_now
    #   All waiting ids become due. @return [Integer]
    # @!method perform_all_failed_jobs_now
    #   All ids that wait for a retry become due; delayed ones that never failed stay delayed. Their retry_count stays. @return [Integer]
    # @!method kill_all_failed_jobs
    #   All waiting ids that failed before go to the morgue. @return [Integer]
    # @!method delete_all_failed_jobs
    #   All waiting ids that failed before are deleted. @return [Integer]
    # @!method morgue_queue_up_all_jobs
    #   All dead ids wait again, due now. @return [Integer]
    # @!method morgue_delete_all_jobs
    #   The morgue is emptied. @return [Integer]
    # @!method pause
    #   Nothing of the queue is claimed until resume; what runs goes on. @return [Integer] shards
    # @!method resume
    #   @return [Integer] shards
    # @!method unpark_all
    #   All that is parked waits again, due now, as if it had never failed. @return [Integer]
    ALL.each { |name, kind| define_method(name) { act(kind) } }

    # @!method delete(ids)
    #   Deletes what waits and what is scheduled; a running id is not put back if it fails. @return [Integer]
    # @!method morgue_queue_up(ids)
    #   Dead ids wait again, due now. @return [Integer]
    # @!method morgue_delete(ids)
    #   @return [Integer]
    # @!method park(ids)
    #   The ids stop with all their payloads until unpark. @return [Integer]
    # @!method unpark(ids)
    #   Parked ids wait again, due now, as if they had never failed. @return [Integer]
    # @!method perform_now(ids)
    #   Waiting ids that are due later become due now; of a running id, what waits behind it. Their retry_count stays.
    #   @return [Integer]
    # @!method kill(ids)
    #   Waiting ids that failed before go to the morgue. @return [Integer]
    SOME.each { |name, kind| define_method(name) { |ids| act(kind, Jobs.id_texts(ids)) } }

    # @!method drop_payload(id, payload)
    #   Drops one payload of a waiting or parked id, the first of equal ones; the id goes with its last. Of a running id, one that waits behind the
    #   run: what runs has been delivered. @return [Integer] 1, or 0 where there is none
    # @!method morgue_drop_payload(id, payload)
    #   The same of a dead id. @return [Integer] 1 or 0
    ONE.each do |name, kind|
      define_method(name) do |id, payload|
        text = Jobs.one_id_text(id)
        act(kind, [text, @worker.payload_codec.dump(payload, "payload")])
      end
    end

    # Removes one payload, by the handle that its push answered, while it is scheduled, waits, is in back-off or parked; with the last
    # one the id goes.
    # @return [Boolean] false: it is being delivered, was, is dead or gone
    def cancel(handle)
      text = handle_text(handle)
      Pool.current.with { |connection| connection.cancel(@worker.queue_settings, text) }
    end

    # Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; in the past: now.
    # @param at [Time, Numeric] Unix seconds
    # @return [Boolean] false: it was delivered, is dead or gone
    def reschedule(handle, at)
      text = handle_text(handle)
      seconds = Jobs.unix_time(at) { Validate.refuse("at", "a Time or a number of Unix seconds", at) }
      Pool.current.with { |connection| connection.reschedule(@worker.queue_settings, text, seconds) }
    end

    # Deletes the queue itself: layout, settings and, if forced, what it holds. The next push or server of the worker makes it anew.
    # @param force [Boolean] also where ids wait, run, are parked or dead
    # @return [Integer] 1
    # @raise [Invalid] while a node serves it; where it holds ids and is not forced; where there is none
    def delete_queue(force: false)
      act(DELETE_QUEUE, force ? [@worker.queue_name] : nil)
    end

    # Proves what is stored of the queue, in slices.
    # @param repair [Boolean] mend what can be mended without losing a payload
    # @return [Hash] looked_at, findings: [{shard:, kind:, detail:, id:, repaired:}]
    def check(repair: false)
      looked_at, findings = Pool.current.with { |connection| connection.check(@worker.queue_settings, repair) }
      { looked_at: looked_at, findings: findings }
    end

    private

    def handle_text(handle) = handle.is_a?(String) ? handle : Validate.refuse("handle", "a String", handle)

    def act(kind, texts = nil)
      return 0 if texts && texts.empty?

      Pool.current.with { |connection| connection.action(@worker.queue_settings, kind, texts) }
    end
  end
end
