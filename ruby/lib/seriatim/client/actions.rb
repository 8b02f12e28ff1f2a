# frozen_string_literal: true

module Seriatim
  # The actions of an operator on a worker's queue: `OrderWorker.actions`. Each returns the number of ids that it changed,
  # unless its comment says otherwise. "All" means what is there when the action begins.
  class Actions
    def initialize(worker)
      @worker = worker
    end

    # definitions: actions, written by script/embed from core/definitions/operations.json

    # Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change.
    # @return [Integer]
    def perform_now(ids) = act_on("perform_now", ids)

    # Makes all waiting ids due now.
    # @return [Integer]
    def perform_all_jobs_now = act("perform_all_jobs_now")

    # Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change.
    # @return [Integer]
    def perform_all_failed_jobs_now = act("perform_all_failed_jobs_now")

    # Parks the ids with all their payloads: they do not run until unpark. A running id is parked when its run ends. Returns how many of the
    # ids were there, parked before or not.
    # @return [Integer]
    def park(ids) = act_on("park", ids)

    # Moves parked ids back to the waiting ones, due now, as if they had never failed.
    # @return [Integer]
    def unpark(ids) = act_on("unpark", ids)

    # Moves all parked ids back to the waiting ones, due now, as if they had never failed.
    # @return [Integer]
    def unpark_all = act("unpark_all")

    # Deletes waiting and scheduled ids; a running id is not retried if it fails.
    # @return [Integer]
    def delete(ids) = act_on("delete", ids)

    # Deletes all waiting ids that failed before.
    # @return [Integer]
    def delete_all_failed_jobs = act("delete_all_failed_jobs")

    # Moves waiting ids that failed before to the morgue; the others stay.
    # @return [Integer]
    def kill(ids) = act_on("kill", ids)

    # Moves all waiting ids that failed before to the morgue.
    # @return [Integer]
    def kill_all_failed_jobs = act("kill_all_failed_jobs")

    # Moves dead ids back to the waiting ones, due now; those of a running id wait behind its run, and a parked id stays parked.
    # @return [Integer]
    def morgue_queue_up(ids) = act_on("morgue_queue_up", ids)

    # Moves all dead ids back to the waiting ones, as morgue_queue_up does.
    # @return [Integer]
    def morgue_queue_up_all_jobs = act("morgue_queue_up_all_jobs")

    # Deletes dead ids.
    # @return [Integer]
    def morgue_delete(ids) = act_on("morgue_delete", ids)

    # Deletes all dead ids.
    # @return [Integer]
    def morgue_delete_all_jobs = act("morgue_delete_all_jobs")

    # Deletes one payload, by the handle that its push returned, while it is scheduled, waits, is in back-off or parked; the id goes with
    # its last one. False: it is being delivered, was delivered, is dead or no longer there. After a lost connection false may mean that
    # this very call removed it.
    # @return [Boolean]
    def cancel(handle) = act_on_handle("cancel", handle)

    # Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; one in the past means now. False: it is being
    # delivered, was delivered, is dead or no longer there, or its id is parked or waits after a run that was not done.
    # @param at [Time, Numeric] Unix seconds
    # @return [Boolean]
    def reschedule(handle, at) = act_on_handle("reschedule", handle, at)

    # Deletes one payload of a waiting or parked id, of equal ones the one with the lowest score; the id goes with its last one. Of a
    # running id, one that waits behind the run. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that
    # this very call removed it.
    # @return [Integer]
    def drop_payload(id, payload) = act_on_payload("drop_payload", id, payload)

    # Deletes one payload of a dead id. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that this very
    # call removed it.
    # @return [Integer]
    def morgue_drop_payload(id, payload) = act_on_payload("morgue_drop_payload", id, payload)

    # Stops claims of the queue until resume; running jobs go on. Returns how many shards were not paused before.
    # @return [Integer]
    def pause = act("pause")

    # Undoes pause. Returns how many shards were paused.
    # @return [Integer]
    def resume = act("resume")

    # Gives the queue another number of shards: its servers move its ids while it is in use, and the metrics say how far they are. Returns
    # 1, or 0 if the queue has this number already or its ids are on their way to it.
    # @param shards [Integer] 1 to 4096
    # @return [Integer]
    def reshard(shards) = act_on_shards("reshard", shards)

    # end of definitions

    # Deletes the queue itself: layout, settings and, if forced, what it holds. The next push or server of the worker makes it anew.
    # @param force [Boolean] also where ids wait, run, are parked or dead
    # @return [Integer] 1
    # @raise [Invalid] force is neither true nor false; while a node serves it; where it holds ids and is not forced; where there is none
    def delete_queue(force: false)
      act("delete_queue", Validate.flag("force", force) ? [@worker.queue_name] : nil)
    end

    # Proves what is stored of the queue, in slices.
    # @param repair [Boolean] mend what can be mended without losing a payload
    # @return [Hash] looked_at, findings: [{shard:, kind:, detail:, id:, repaired:}]
    def check(repair: false)
      Validate.flag("repair", repair)
      looked_at, findings = Pool.current.with { |connection| connection.check(@worker.queue_settings, repair) }
      { looked_at: looked_at, findings: findings }
    end

    private

    # @param name [String] as core/definitions/operations.json has it
    def act(name, texts = nil)
      return 0 if texts && texts.empty?

      Pool.current.with { |connection| connection.action(@worker.queue_settings, name, texts) }
    end

    def act_on(name, ids) = act(name, Jobs.id_texts(ids))

    def act_on_payload(name, id, payload)
      text = Jobs.one_id_text(id)
      act(name, [text, @worker.payload_codec.dump(payload, "payload")])
    end

    def act_on_shards(name, shards)
      Validate.refuse("shards", "an Integer", shards) unless shards.is_a?(Integer)
      act(name, [shards.to_s])
    end

    # @param at [Array] the time, if the action takes one
    def act_on_handle(name, handle, *at)
      Validate.refuse("handle", "a String", handle) unless handle.is_a?(String)
      times = at.map { |time| Jobs.unix_time(time) { Validate.refuse("at", "a Time or a number of Unix seconds", time) }.to_s }
      act(name, [handle, *times]) == 1
    end
  end
end
