# frozen_string_literal: true

require "seriatim/testing/trial"

module Seriatim
  module Testing
    # A job that was pushed. time: Unix seconds, as it was asked for by perform_in, perform_at, delay, deliver_at or deliver_in, or nil;
    # at: when it was pushed.
    Pushed = Struct.new(:queue, :id, :payload, :score, :time, :context, :on_waiting, :at, keyword_init: true)

    # Stands in for a pool and its connections: keeps the jobs in memory, by the rules of the core.
    # @api private
    class Memory
      ACTIONS = %w[cancel reschedule].freeze
      ABSOLUTE = %i[perform_in perform_at deliver_at].freeze
      RELATIVE = %i[delay deliver_in].freeze
      private_constant :ACTIONS, :ABSOLUTE, :RELATIVE

      # @return [Array<Pushed>]
      attr_reader :pushed

      def initialize
        @lock = Monitor.new
        forget
      end

      # ---- as a pool

      def with(_patience = nil) = yield(self)
      def generation = Native.generation

      # ---- as a connection

      # As {Connection#push}.
      def push(settings, jobs, payloads, _wait, _seconds, handles, outbox = nil)
        refuse("an outbox") if outbox
        added, folded, refused, scheduled, stale, handles = @lock.synchronize do
          @fake.push(number(settings), jobs, payloads, handles, now)
        end
        note(settings, jobs, payloads, refused)
        [added, folded, refused, nil, nil, scheduled, stale, handles]
      end

      # As {Connection#pipeline}.
      def pipeline(pushes) = [pushes.map { |push| self.push(*push) }, nil, nil]

      # As {Connection#check_jobs}.
      def check_jobs(settings, jobs, payloads) = @lock.synchronize { @fake.check_jobs(number(settings), jobs, payloads) }

      # As {Connection#action}.
      def action(settings, name, texts = nil)
        refuse("the action #{name}") unless ACTIONS.include?(name)

        @lock.synchronize { name == "cancel" ? @fake.cancel(number(settings), *texts) : @fake.reschedule(number(settings), *texts, now) } ? 1 : 0
      end

      # As {Connection#popped}.
      def popped(...) = refuse("a report on a delivery")

      def respond_to_missing?(name, _private = false) = Connection.method_defined?(name)

      def method_missing(name, ...)
        respond_to_missing?(name) ? refuse(name) : super
      end

      # ---- for tests

      def jobs(worker) = rows(worker).reject { |job| job[:state] == :dead }
      def dead_jobs(worker) = rows(worker).select { |job| job[:state] == :dead }

      def clear(worker)
        @lock.synchronize { @fake.clear(number(worker.queue_settings)) }
        @pushed.reject! { |job| job.queue == worker.queue_name }
        nil
      end

      def clear_all
        @lock.synchronize { forget }
        nil
      end

      def perform_one(worker) = run_next([worker], nil, true)

      def drain(worker, at, raises) = count { run_next([worker], limit(at), raises) }

      # Of all queues to which something was pushed; a later push may add to them.
      def drain_all(at, raises) = count { run_next(workers, limit(at), raises) }

      # Takes ids that are due.
      # @param time [Integer] Unix time in microseconds, as it is for this run
      # @return [Array, nil] shard and rows, as the core gives them, each with the handles of its payloads behind
      def take(worker, time)
        @lock.synchronize do
          shard, rows = @fake.take(number(worker.queue_settings), worker.batch_size, time)
          rows.each_with_index { |row, place| row << @fake.handles(place, worker.queue_name) }
          [shard, rows] unless rows.empty?
        end
      end

      def exhausted(worker) = @lock.synchronize { @fake.take_exhausted(number(worker.queue_settings)) }

      # What was cleared while it ran has no outcome.
      def settle(worker, *outcome, time)
        @lock.synchronize { @fake.settle(number(worker.queue_settings), *outcome, time) }
      rescue Stale
        nil
      end

      # @param name [String, Symbol] of what was called
      # @raise [Invalid]
      def refuse(name)
        raise Invalid, "#{name} needs Redis, and Seriatim.testing! has turned it off here; there are perform_async, jobs, dead_jobs, " \
                       "perform_one, drain, clear, actions.cancel and actions.reschedule"
      end

      private

      def forget
        @fake = Native::Fake.new
        @numbers = {}
        @settings = {}
        @pushed = []
      end

      # By Time.now, which tests may stub.
      def now = (Time.now.to_r * 1_000_000).to_i

      def number(settings)
        name = settings[:queue_name]
        return @numbers.fetch(name) if @settings[name].equal?(settings)

        @settings[name] = settings
        @numbers[name] = @fake.queue(settings)
      end

      def workers = @numbers.keys.filter_map { |name| Worker.named(name) }

      # Events whose type has no handler in this process wait for one, as in a queue.
      def runs?(worker) = !worker.respond_to?(:handled?) || worker.handled?

      def limit(at)
        return unless at

        (Jobs.unix_time(at) { Validate.refuse("at", "a Time or a number of Unix seconds", at) } * 1_000_000).floor
      end

      def count
        ran = 0
        ran += 1 while yield
        ran
      end

      # @return [Boolean] false: nothing is due by this time
      def run_next(workers, limit, raises)
        loop do
          at, worker = workers.select { |each| runs?(each) }.filter_map { |each| (at = due(each)) && [at, each] }.min_by(&:first)
          return false if at.nil? || (limit && at > limit)

          time = [now, at].max
          taken = take(worker, time) or next # what was due was dropped, or became due later
          Trial.new(self, worker, time).run(*taken, raises)
          return true
        end
      end

      def due(worker) = @lock.synchronize { @fake.next(number(worker.queue_settings), now) }

      def rows(worker)
        list = @lock.synchronize { @fake.list(number(worker.queue_settings)) }
        list.map do |state, id, bytes, score, context, time, retry_count, error|
          { id: id, payload: payload_of(worker, bytes), score: score, perform_in: Time.at(time / 1_000_000r), state: state,
            retry_count: retry_count, context: context ? Native.load(context) : {}, error: error && StoredError.loaded(error) }
        end
      end

      def note(settings, jobs, payloads, refused)
        time = now / 1e6
        Native.read_jobs(jobs).each_with_index do |job, at|
          next if refused.include?(at)

          payload = payloads ? payload_of(Worker.named(settings[:queue_name]), payloads[at]) : Native.load(Native.dump(job.fetch(:payload, ""), ""))
          @pushed << Pushed.new(queue: settings[:queue_name], id: Jobs.one_id_text(job[:id]), payload: payload, score: job[:score]&.to_f,
                                time: asked_time(job, time), context: (job[:context] || {}).to_h { |key, value| [key.to_s, value.to_s] },
                                on_waiting: job[:on_waiting]&.to_sym, at: time)
        end
      end

      # The bytes where the codec cannot read them: that is what the run is to show.
      def payload_of(worker, bytes)
        worker ? worker.payload_codec.load(bytes) : bytes
      rescue StandardError, ScriptError, SystemStackError
        bytes
      end

      def asked_time(job, now)
        name = (ABSOLUTE + RELATIVE).find { |field| job[field] } or return
        RELATIVE.include?(name) ? now + job[name].to_f : Jobs.unix_time(job[name]) { nil }
      end
    end
  end
end
