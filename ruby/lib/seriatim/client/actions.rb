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
    #   Makes all waiting ids due now. @return [Integer]
    # @!method perform_all_failed_jobs_now
    #   Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change. @return [Integer]
    # @!method kill_all_failed_jobs
    #   Moves all waiting ids that failed before to the morgue. @return [Integer]
    # @!method delete_all_failed_jobs
    #   Deletes all waiting ids that failed before. @return [Integer]
    # @!method morgue_queue_up_all_jobs
    #   Moves all dead ids back to the waiting ones, due now. @return [Integer]
    # @!method morgue_delete_all_jobs
    #   Deletes all dead ids. @return [Integer]
    # @!method pause
    #   Stops claims of the queue until resume; running jobs go on. @return [Integer] shards
    # @!method resume
    #   @return [Integer] shards
    # @!method unpark_all
    #   Moves all parked ids back to the waiting ones, due now, with their retry_count reset. @return [Integer]
    ALL.each { |name, kind| define_method(name) { act(kind) } }

    # @!method delete(ids)
    #   Deletes waiting and scheduled ids; a running id is not retried if it fails. @return [Integer]
    # @!method morgue_queue_up(ids)
    #   Moves dead ids back to the waiting ones, due now. @return [Integer]
    # @!method morgue_delete(ids)
    #   @return [Integer]
    # @!method park(ids)
    #   Parks the ids with all their payloads: they do not run until unpark. @return [Integer]
    # @!method unpark(ids)
    #   Moves parked ids back to the waiting ones, due now, with their retry_count reset. @return [Integer]
    # @!method perform_now(ids)
    #   Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change.
    #   @return [Integer]
    # @!method kill(ids)
    #   Moves waiting ids that failed before to the morgue. @return [Integer]
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
