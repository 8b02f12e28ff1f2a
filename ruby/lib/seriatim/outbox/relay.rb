# frozen_string_literal: true

require "seriatim/outbox/lock"

module Seriatim
  module Outbox
    # Pushes what was committed to the outbox. Any number of relays may run: the lock of the outbox lets one of them work. The
    # numbers keep each job from being pushed twice, so that a relay that dies, or has lost its lock without noticing, does no harm.
    # @api private
    class Relay
      ROWS = 1000 # that are numbered, or pushed, at a time
      BYTES = 4 * 1024 * 1024 # of payloads that are pushed at a time; one may be larger
      PAUSE = 0.2 # seconds, when nothing waits
      LOCKED_PAUSE = 1.0 # seconds, while another relay works
      LONGEST_PAUSE = 30.0 # seconds, after errors
      REPORT = 60 # seconds between log lines about what waits
      # A queue whose last push failed: how many failed in a row, and the monotonic time of the next one.
      Held = Struct.new(:failures, :till)
      private_constant :ROWS, :BYTES, :PAUSE, :LOCKED_PAUSE, :LONGEST_PAUSE, :REPORT, :Held

      def initialize
        @failures = 0 # of the database, in a row
        @held = {} # queue => Held
        @retry_at = -Float::INFINITY # monotonic time before which no held queue is pushed
        @reported = -Float::INFINITY
      end

      # Until `signals` has one.
      # @param signals [#wait] takes seconds, and returns what is no nil when it is to end
      def run(signals)
        pause = 0
        pause = turn until signals.wait(pause)
      ensure
        @lock&.release
      end

      # One turn: numbers what is new, pushes a part of it, and deletes that.
      # @return [Float] seconds after which the next turn is due
      def turn
        pushed = Row.uncached { relay if owns? }
        recover(!pushed.nil?)
        return LOCKED_PAUSE if pushed.nil?

        report
        pushed.zero? ? PAUSE : 0.0
      rescue ActiveRecord::ActiveRecordError => e
        fail_with(e)
      end

      private

      # The lock is of the connection, so it is asked for again when the connection was made anew.
      def owns?
        @lock ||= Lock.for(Row.leased)
        return true if @lock.held?
        return false unless @lock.acquire

        Log.info("outbox", "relay of the outbox #{Counter.the_one.name}")
        true
      end

      # What fails for one queue leaves the others alone. A push that fails ends the turn, because it may have taken push_timeout and
      # a signal may have come; the next turn begins at once with the others.
      # @return [Integer] the rows that it tried to push
      def relay
        number_rows
        rows = page(Row.where.not(queue: @held.keys))
        rows.group_by(&:queue).all? { |queue, part| push(queue, part) } ? rows.size + retry_held : rows.size
      end

      # Pushes the held queue that waits longest for its next push.
      def retry_held
        queue, held = @held.min_by { |_, hold| hold.till }
        return 0 if held.nil? || PushOutcome.monotonic < [held.till, @retry_at].max

        rows = page(Row.where(queue: queue))
        rows.empty? ? @held.delete(queue) : push(queue, rows)
        rows.size
      end

      # In the order of their ids, in which the rows of one job's id were committed. A row that is committed later with a lower id is of
      # another job's id, and gets a later number.
      def number_rows
        return unless Row.where(number: nil).exists?

        Row.transaction do
          Counter.where(id: 1).update_all("last_number = last_number") # takes the lock of the row, in SQLite that of writing
          last = Counter.the_one.last_number
          table = Row.quoted_table_name
          count = Row.leased.update(<<~SQL)
            UPDATE #{table} SET number = #{last} + numbered.place
            FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS place
                  FROM (SELECT id FROM #{table} WHERE number IS NULL ORDER BY id LIMIT #{ROWS}) AS page) AS numbered
            WHERE #{table}.id = numbered.id
          SQL
          Counter.where(id: 1).update_all(last_number: last + count)
        end
      end

      # The first ones of these rows.
      def page(rows)
        bytes = 0
        sizes = rows.where.not(number: nil).order(:number).limit(ROWS).pluck(:id, Arel.sql("LENGTH(payload)"))
        ids = sizes.take_while.with_index { |(_, size), at| (bytes += size) <= BYTES || at.zero? }.map(&:first)
        Row.where(id: ids).order(:number).to_a
      end

      # @return [Boolean] false: the push failed, and the queue is held
      def push(queue, rows)
        began = PushOutcome.monotonic
        counts = push_rows(queue, rows)
        Row.where(id: rows.map(&:id)).delete_all
        report_push(queue, rows.size, counts[2].size)
        true
      rescue Error, Invalid => e
        hold(queue, rows.size, e, began)
        false
      end

      def report_push(queue, count, refused)
        Log.info("outbox", "pushes this queue again", q: queue) if @held.delete(queue)
        Log.debug("outbox", "pushed", q: queue, n: count)
        Log.warn("outbox", "jobs were refused by on_waiting", q: queue, n: refused) if refused.positive?
      end

      # The next push of a held queue is at least as far away as this one took, so that the relay has half of its time for the others.
      def hold(queue, count, error, began)
        now = PushOutcome.monotonic
        failures = (@held[queue]&.failures || 0) + 1
        pause = [pause_after(failures), now - began].max
        @held[queue] = Held.new(failures, now + pause)
        @retry_at = now + (now - began)
        Log.error("outbox", format("the jobs of this queue wait, the next attempt is in %<pause>.1f s: %<error>s",
                                   pause: pause, error: Log.describe(error)), q: queue, n: count)
      end

      def pause_after(failures) = [PAUSE * (2**[failures, 10].min), LONGEST_PAUSE].min

      # @return [Array] as {Connection#push} says
      def push_rows(queue, rows)
        settings = settings_of(queue)
        limits = Push.limits(nil, nil, nil, false)
        counts = Pool.current.with(limits.left) do |connection|
          connection.push(settings, rows.map { |row| job(row) }, rows.map(&:payload), limits.wait, limits.left, false,
                          [Counter.the_one.name, rows.map(&:number)])
        end
        counts[3] ? raise(NotReplicated, counts[3]) : counts
      end

      def job(row) = { id: row.job_id, **JSON.parse(row.options, symbolize_names: true).tap { |options| options[:context]&.transform_keys!(&:to_s) } }

      # Of a queue without a worker in this process: the settings that Redis has, and 0 shards, which makes no queue.
      def settings_of(queue)
        worker = Worker.named(queue) and return worker.queue_settings
        { **Native.worker_settings.to_h { |setting| [setting[:name], setting[:default]] }, queue_name: queue, shards_count: 0, exhausted_hook: false }
      end

      def fail_with(error)
        drop_connection
        @failures += 1
        pause = pause_after(@failures)
        Log.warn("outbox", "nothing is pushed, the next attempt is in #{pause.round(1)} s: #{Log.describe(error)}")
        pause
      end

      # A connection to the database that failed is of no use, nor is the lock that was made of it.
      def drop_connection
        @lock&.drop
        @lock = nil
        Row.connection_pool.disconnect!
      rescue ActiveRecord::ActiveRecordError
        nil
      end

      # @param works [Boolean] this relay, and no other one
      def recover(works)
        Log.info("outbox", "pushes again") if works && @failures.positive?
        @failures = 0
      end

      def report
        now = PushOutcome.monotonic
        return if now < @reported + REPORT

        @reported = now
        figures = Outbox.metrics
        Log.info("outbox", format("waiting=%<waiting>d lag=%<lag>.1f", figures))
      end
    end
  end
end
