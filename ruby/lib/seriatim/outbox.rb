# frozen_string_literal: true

require "active_record"
require "digest"
require "json"
require "securerandom"
require "seriatim/outbox/relay"

module Seriatim
  # Pushes that are committed or rolled back with a transaction of the database: {.push} writes rows, and the command
  # `seriatim outbox` pushes them once they are committed. `rails g seriatim:outbox` makes the tables. PostgreSQL and SQLite.
  module Outbox
    # A job that was committed, or will be, and was not pushed yet. `number`: its place in the outbox, which the relay gives it.
    # @api private
    class Row < ActiveRecord::Base
      self.table_name = "#{table_name_prefix}seriatim_outbox_jobs#{table_name_suffix}"

      # A connection that stays with the thread. Rails 7.2 and later may refuse the name `connection`.
      def self.leased = respond_to?(:lease_connection) ? lease_connection : connection
    end

    # The one row that names this outbox to Redis, and has the last number that was given. If it is made while rows have numbers
    # already, because somebody deleted it, later rows get higher ones: a shard would take lower ones for those of pushed jobs.
    # @api private
    class Counter < ActiveRecord::Base
      self.table_name = "#{table_name_prefix}seriatim_outboxes#{table_name_suffix}"

      def self.the_one = first || create!(id: 1, name: SecureRandom.uuid, last_number: Row.maximum(:number) || 0)
    end

    SLICE = 500 # rows of an INSERT, ids of a statement that locks
    TIMES = { perform_in: :perform_in, perform_at: :perform_at, deliver_at: :deliver_at }.freeze
    OTHERS = %i[on_waiting retry_count context].freeze
    private_constant :SLICE, :TIMES, :OTHERS

    class << self
      # Writes the jobs into the outbox, in the transaction that is open. After the commit the relay pushes each job once, those of
      # one id in the order of the commits. Times from now (delay, deliver_in) count from this call. Two transactions that write
      # jobs of the same id wait for each other. In a test mode the jobs are checked at once, and pushed in memory after the commit.
      # @param worker [Worker]
      # @param jobs [Array<Hash>] as {Worker#perform_async} takes them
      # @return [Integer] how many were written
      # @raise [Invalid] no transaction is open, ActiveRecord is connected to another shard, or a job is wrong; then nothing was written
      def push(worker, jobs)
        check_shard
        check_transaction
        chain = Seriatim.client_middlewares
        return write(worker, jobs) if chain.empty?

        jobs = Native.read_jobs(jobs)
        Native.check_jobs(jobs, payloads(worker, jobs))
        count = 0
        Middlewares.call("client_middlewares", chain, worker, jobs) { count = write(worker, jobs) }
        count
      end

      # Reads the database at each call, also in a job and under `rails runner`, where ActiveRecord caches queries.
      # @return [Hash] waiting: committed jobs that were not pushed yet; lag: seconds since the oldest of them was written, 0.0 if
      #   none waits
      def metrics
        Row.uncached do
          oldest = Row.order(:id).pick(:created_at)
          { waiting: Row.count, lag: oldest ? [Time.now - oldest, 0.0].max : 0.0 }
        end
      end

      # Gives the outbox another name. Call it, while no relay runs, when the database was restored from a backup or copied: its
      # numbers are behind those that Redis knows, so Redis would treat new jobs as pushed already, and drop them. Jobs that the backup holds are pushed
      # again.
      # @return [String] the new name
      def renew
        Counter.the_one.update!(name: SecureRandom.uuid)
        Counter.the_one.name
      end

      private

      # The relay reads the default shard: a row of another one would never be pushed.
      def check_shard
        return if Row.current_shard == Row.default_shard

        raise Invalid, "ActiveRecord is connected to the shard #{Row.current_shard}, and the outbox is in the shard #{Row.default_shard}: " \
                       "call it outside of connected_to(shard: ...), or use perform_async"
      end

      def check_transaction
        return if with_connection(&:transaction_open?)

        raise Invalid, "no transaction is open: call it inside of ActiveRecord::Base.transaction, or use perform_async"
      end

      def payloads(worker, jobs) = Jobs.payloads(jobs, worker.payload_codec)

      def write(worker, jobs)
        return 0 if jobs.is_a?(Array) && jobs.empty?

        jobs = Native.read_jobs(jobs)
        payloads = payloads(worker, jobs)
        return write_in_memory(worker, jobs, payloads) if test_mode?

        Connection.unopened { |connection| connection.check_jobs(worker.queue_settings, jobs, payloads) }
        rows = jobs.each_with_index.map { |job, at| row(worker.queue_name, job, at, payloads[at]) }
        lock(rows)
        rows.each_slice(SLICE) { |slice| Row.insert_all!(slice) }
        rows.size
      end

      def test_mode? = Seriatim.const_defined?(:Testing, false) && Testing.current

      # No relay runs in a test.
      def write_in_memory(worker, jobs, payloads)
        Pool.current.with { |memory| memory.check_jobs(worker.queue_settings, jobs, payloads) }
        Seriatim.after_commit do
          Pool.current.with { |memory| memory.push(worker.queue_settings, jobs, payloads, nil, nil, false) }
        end
        jobs.size
      end

      def row(queue, job, at, payload)
        { queue: queue, job_id: Jobs.id(job[:id], at).to_s.b, payload: payload.b, options: JSON.generate(options(job, at)),
          created_at: Time.now.utc }
      end

      # What a job has beside id and payload, with its times as Unix seconds.
      def options(job, at)
        job = job.compact
        options = job.slice(*OTHERS)
        options[:score] = Jobs.score(job[:score], at) if job[:score]
        TIMES.each_key { |name| options[name] = Jobs.public_send(name, job[name], at) if job[name] }
        options[:deliver_at] = from_now(Jobs.deliver_in(job[:deliver_in], at)) if job[:deliver_in]
        options[:perform_at] = from_now(Jobs.delay(job[:delay], at), options[:deliver_at]) if job[:delay]
        options
      end

      def from_now(seconds, start = nil) = [start || 0.0, Time.now.to_f].max + [seconds, 0.0].max

      # The rows of an id get their ids in the order of the commits: whoever writes one holds the lock of its id to the end of
      # the transaction. SQLite has one writer at a time.
      def lock(rows)
        return unless postgresql?

        keys = rows.map { |row| Digest::SHA256.digest("seriatim #{row[:queue].b}\0#{row[:job_id]}").unpack1("q>") }.uniq.sort
        keys.each_slice(SLICE) do |slice|
          sql = "SELECT pg_advisory_xact_lock(key) FROM (VALUES #{slice.map { |key| "(#{key})" }.join(",")}) AS keys(key)"
          with_connection { |connection| connection.execute(sql) }
        end
      end

      def postgresql? = with_connection(&:adapter_name) == "PostgreSQL"

      # That of the open transaction; without one a connection that goes back to its pool after the block.
      def with_connection(&block) = Row.connection_pool.with_connection(&block)
    end
  end
end
