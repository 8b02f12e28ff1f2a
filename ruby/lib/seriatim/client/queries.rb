# frozen_string_literal: true

module Seriatim
  # What is in a worker's queue: `OrderWorker.queries`. Records are Hashes: id, perform_in (Unix seconds), retry_count,
  # payloads ([[payload, score], ...] by score, at most 1,000), payloads_count (how many are stored) and, where there is one, error.
  # Dead ones: id, updated_at (Unix seconds), payloads, payloads_count, error. A payload that the codec cannot read is given as its bytes.
  #
  # Scheduled payloads are Hashes: id, payload, deliver_at and pushed_at (Unix seconds), handle and, if the push gave one, score.
  #
  # Ranges take bounds as Redis has them: ids "-", "+", "[from" or "(after"; numbers 5, "(5", "-inf", "+inf". The rev_
  # forms descend and take the greater bound first, as Redis does.
  class Queries
    WAITING = %i[id perform_in retry_count payloads_count error].freeze
    DEAD = %i[id updated_at payloads_count error].freeze
    private_constant :WAITING, :DEAD

    def initialize(worker)
      @worker = worker
    end

    # definitions: queries, written by script/embed from core/definitions/operations.json

    # Waiting ids, in the order of their bytes.
    # @return [Array<Hash>]
    def range_by_id(min, max, limit: 10) = range("range_by_id", WAITING, min, max, limit)

    # The same, descending.
    # @return [Array<Hash>]
    def rev_range_by_id(max, min, limit: 10) = range("range_by_id", WAITING, min, max, limit, reverse: true)

    # Waiting ids, in the order in which they become due.
    # @return [Array<Hash>]
    def range_by_perform_in(min, max, limit: 10) = range("range_by_perform_in", WAITING, min, max, limit)

    # The same, descending.
    # @return [Array<Hash>]
    def rev_range_by_perform_in(max, min, limit: 10) = range("range_by_perform_in", WAITING, min, max, limit, reverse: true)

    # Waiting ids that failed, in the order of their retry_count.
    # @return [Array<Hash>]
    def range_by_retry_count(min, max, limit: 10) = range("range_by_retry_count", WAITING, min, max, limit)

    # The same, descending.
    # @return [Array<Hash>]
    def rev_range_by_retry_count(max, min, limit: 10) = range("range_by_retry_count", WAITING, min, max, limit, reverse: true)

    # The given ids that wait, are parked or have scheduled payloads, in the given order; unknown ones are left out.
    # @return [Array<Hash>]
    def fetch(ids) = fetched("fetch", WAITING, ids)

    # Dead ids, in the order of their bytes.
    # @return [Array<Hash>]
    def morgue_range_by_id(min, max, limit: 10) = range("morgue_range_by_id", DEAD, min, max, limit)

    # The same, descending.
    # @return [Array<Hash>]
    def morgue_rev_range_by_id(max, min, limit: 10) = range("morgue_range_by_id", DEAD, min, max, limit, reverse: true)

    # Dead ids, in the order of their last death.
    # @return [Array<Hash>]
    def morgue_range_by_updated_at(min, max, limit: 10) = range("morgue_range_by_updated_at", DEAD, min, max, limit)

    # The same, descending.
    # @return [Array<Hash>]
    def morgue_rev_range_by_updated_at(max, min, limit: 10) = range("morgue_range_by_updated_at", DEAD, min, max, limit, reverse: true)

    # The given ids that are dead, in the given order; unknown ones are left out.
    # @return [Array<Hash>]
    def morgue_fetch(ids) = fetched("morgue_fetch", DEAD, ids)

    # end of definitions

    # Payloads whose deliver_at has not come, or that no claim has moved yet, by deliver_at.
    # @param id [String, Integer, nil] only those of this id; nil: of all ids
    # @return [Array<Hash>] a Hash for each payload
    def range_by_deliver_at(min, max, limit: 10, id: nil) = scheduled(min, max, limit, id, false)

    # The same, descending.
    # @return [Array<Hash>]
    def rev_range_by_deliver_at(max, min, limit: 10, id: nil) = scheduled(min, max, limit, id, true)

    # What runs now.
    # @param shard [Integer, nil] of one shard; nil: of all
    # @return [Array<Hash>]
    def processing_data(shard = nil, limit: 100_000)
      place = shard.nil? ? -1 : Validate.integer("shard", shard, 0..4095)
      ask("processing_data", WAITING, shard: place, limit: limit)
    end

    # What an operator or on_exhausted :park has stopped, by the time of it.
    # @return [Array<Hash>]
    def parked(limit: 10) = ask("parked", WAITING, limit: limit)

    # Why the id is or is not running.
    # @return [Hash] text (one sentence), job, behind, dead (nil, or a record with its state and without its payloads), scheduled (nil, or
    #   payloads_count and the first deliver_at), owner (or nil), owner_alive, paused, lease, fence,
    #   remembered_score (or nil: jobs whose own score is not above it are stale) and remembered_until, now (Unix seconds), history: the last events of the id, the
    #   latest last, where the worker has history_per_id: hashes of text (a line for a reader), event ("pushed", "claimed", "failed" …), at and
    #   due (Unix seconds), fence, payloads_count, node and error; nil for what an event does not have
    def explain(id)
      text = Jobs.one_id_text(id)
      answer = Pool.current.with { |connection| connection.explain(@worker.queue_settings, text) }
      count, deliver_at = answer[:scheduled], answer.delete(:deliver_at)
      history = answer[:history].map { |entry| entry.merge(error: loaded_error(entry[:error])) }
      answer.merge(history: history, job: known(answer[:job], WAITING), behind: known(answer[:behind], WAITING), dead: known(answer[:dead], DEAD),
                   scheduled: count.zero? ? nil : { payloads_count: count, deliver_at: deliver_at })
    end

    private

    # @param kind [String] as core/definitions/operations.json names it
    def range(kind, fields, min, max, limit, **order) = ask(kind, fields, min: bound(min), max: bound(max), limit: limit, **order)

    def fetched(kind, fields, ids) = ask(kind, fields, ids: Jobs.id_texts(ids), limit: 100_000)

    def ask(kind, fields, **query) = rows(kind, **query).map { |row| record(row, fields) }

    def rows(kind, limit:, **query)
      Validate.integer("limit", limit, 1..100_000)
      Pool.current.with { |connection| connection.query(@worker.queue_settings, kind, limit: limit, **query) }
    end

    def scheduled(min, max, limit, id, reverse)
      ids = id.nil? ? nil : [Jobs.one_id_text(id)]
      found = rows("range_by_deliver_at", reverse: reverse, min: bound(min), max: bound(max), limit: limit, ids: ids)
      found.map { |row| { id: row[:id], **scheduled_payload(row[:scheduled].first) } }
    end

    def scheduled_payload(row) = row.merge(payload: loaded(row[:payload]) { @worker.payload_codec.load(row[:payload]) })

    # A record of explain, which reads no payloads.
    def known(row, fields) = row && head(row, [*fields, :state])

    def record(row, fields)
      codec = @worker.payload_codec
      record = head(row, fields)
      record[:payloads] = row[:payloads].map { |bytes, score| [loaded(bytes) { codec.load(bytes) }, score] }
      record[:scheduled] = scheduled_of(row) if row[:scheduled_total].positive?
      record
    end

    def scheduled_of(row)
      { count: row[:scheduled_total], deliver_at: row[:deliver_at], payloads: row[:scheduled].map { |one| scheduled_payload(one) } }
    end

    # A record without its payloads.
    def head(row, fields)
      record = row.slice(*fields)
      error = record[:error]
      error ? record[:error] = loaded_error(error) : record.delete(:error)
      record
    end

    def loaded_error(stored) = stored && StoredError.loaded(stored)

    # What the application cannot read is shown as it is stored.
    def loaded(stored)
      yield
    rescue StandardError, ScriptError, SystemStackError
      stored
    end

    def bound(value)
      case value
      when String then value
      when Integer then value.to_s
      when Float then infinite_or_text(value)
      when Time then value.to_f.to_s
      else Validate.refuse("bound", "a String or a number", value)
      end
    end

    def infinite_or_text(value)
      return value.to_s unless value.infinite?

      value.positive? ? "+inf" : "-inf"
    end
  end
end
