# frozen_string_literal: true

require "active_job"
require "seriatim"
require "seriatim/active_job/ordering"
require "seriatim/active_job/run"
require "seriatim/active_job/queue_worker"

module Seriatim
  # What the ActiveJob adapter stands on, and what an application asks about jobs that it has enqueued.
  module ActiveJob
    LOCK = Mutex.new
    FAR = 100_000 # rows: the most that a query gives
    DEFAULT_NAME = ::ActiveJob::Base.queue_name # a Proc: what classes without queue_as have
    WAITING = [true, :always, :default].freeze # values of enqueue_after_transaction_commit; Rails 7.2 has the words
    private_constant :LOCK, :FAR, :DEFAULT_NAME, :WAITING

    # Of a queue with on_waiting :reject or :unique, whose id waits, or of a job that a client middleware did not push. Rails has a class for
    # it since 7.0.
    EnqueueError = ::ActiveJob.const_defined?(:EnqueueError) ? ::ActiveJob::EnqueueError : Class.new(Error)

    class << self
      # The queues whose jobs a server runs. Not set: those of the job classes and mailers that are loaded. Name them
      # where a queue is chosen only when a job is enqueued (`queue_as { ... }`, `set(queue:)`) or retried (`retry_on ..., queue:`).
      # @return [Array<String>, nil]
      attr_reader :queues

      def queues=(names)
        @queues = (Validate.queue_names("Seriatim::ActiveJob.queues", names) unless names.nil?)
      end

      # The worker of a queue, with the settings, queries and actions of all workers:
      #
      #   Seriatim::ActiveJob.queue("orders").shards_count = 24
      #   Seriatim::ActiveJob.queue("orders").actions.pause
      #
      # @param name [String, Symbol] as ActiveJob has it, with its prefix
      # @return [Worker]
      def queue(name)
        name = name.to_s
        LOCK.synchronize { (@workers ||= {})[name] ||= QueueWorker.make(name) }
      end

      # Deletes a job that is scheduled or waits. Those behind it wait until its retry would have been due.
      # @param provider_job_id [String] of the job that perform_later returned
      # @return [Boolean] false: it runs or has run, a server has claimed it with a job of its id that runs, it is dead or was cancelled
      def cancel(provider_job_id) = by_handle(provider_job_id) { |worker, handle| worker.actions.cancel(handle) }

      # Gives a job that was never begun another time; one in the past means now.
      # @param at [Time, Numeric] Unix seconds
      # @return [Boolean] false: as {.cancel}; also while its id is parked, or waits after a run that was not done: a job of its id is to be retried, say
      def reschedule(provider_job_id, at) = by_handle(provider_job_id) { |worker, handle| worker.actions.reschedule(handle, at) }

      # Jobs whose time has not come, by time. At most 100,000 of a queue are looked at.
      # @param job_class [Class, String, nil] only those of this class
      # @param queue [String, Symbol, nil] only of this queue; nil: of all queues that a server of this application runs
      # @return [Array<Hash>] job_class, job_id, queue, id, arguments (as they are serialized), scheduled_at (Unix seconds), provider_job_id
      def scheduled(job_class: nil, queue: nil, limit: 100)
        Validate.integer("limit", limit, 1..FAR)
        found = (queue ? [self.queue(queue)] : workers).flat_map { |worker| scheduled_in(worker, job_class&.to_s) }
        found.sort_by { |job| job[:scheduled_at] }.first(limit)
      end

      # @api private
      def enqueue(job, timestamp = nil)
        return if Run.current&.takes_over?(job, timestamp)

        push(queue(job.queue_name), [job], [timestamp])
        raise job.enqueue_error if job.respond_to?(:enqueue_error) && job.enqueue_error
      end

      # @api private
      # @return [Integer]
      def enqueue_all(jobs)
        retried, others = jobs.partition { |job| Run.current&.takes_over?(job, job.scheduled_at&.to_f) }
        retried.each { |job| job.successfully_enqueued = true }
        others.chunk_while { |job, following| waits?(job) == waits?(following) }.each do |some|
          waits?(some.first) ? push_after_commit(some) : push_all(some)
        end
        jobs.count(&:successfully_enqueued?)
      end

      # Does a server of this process stop?
      # @api private
      def stopping? = Server.running.any?(&:leaving?)

      # The workers of the queues that a server runs.
      # @api private
      def workers = (queues || loaded_queues).map { |name| queue(name) }

      # @param handle [String, nil] nil: a test has made the batch
      # @api private
      def provider_job_id(worker, handle) = handle && "#{worker.queue_name}:#{handle}"

      # Without the provider_job_id that the job had where it ran: a run takes that of its own payload.
      # @api private
      def payload_of(job) = job.provider_job_id ? job.serialize.merge("provider_job_id" => nil) : job.serialize

      private

      # Is it to be enqueued after the commit? Before 8.2 Rails asks it for perform_later alone.
      def waits?(job) = job.class.respond_to?(:enqueue_after_transaction_commit) && WAITING.include?(job.class.enqueue_after_transaction_commit)

      # At once where there is no transaction. Else it says of the jobs what perform_later says.
      def push_after_commit(jobs)
        jobs.each { |job| job.successfully_enqueued = true }
        Seriatim.after_commit do
          jobs.each { |job| job.successfully_enqueued = false }
          push_all(jobs)
        end
      end

      def push_all(jobs)
        jobs.group_by(&:queue_name).each { |name, some| push(queue(name), some, some.map { |job| job.scheduled_at&.to_f }) }
      end

      def push(worker, jobs, timestamps)
        rows = jobs.zip(timestamps).map do |job, at|
          { id: Ordering.id_of(job), payload: payload_of(job), **(at ? { deliver_at: at } : {}) }
        end
        result = Seriatim.module_eval { const_get(:Pipeline) }.apart { worker.perform_async(rows, handle: true) } # Rails wants to know at once
        check_count(jobs.size, result.handles.size)
        jobs.each_with_index { |job, place| pushed(job, worker, result, place) }
      end

      # Handles are told by their places.
      def check_count(given, pushed)
        return if [given, 0].include?(pushed)

        raise Error, "a client middleware has changed the number of jobs from #{given} to #{pushed}, so it is unknown which were pushed"
      end

      # What was kept has a handle.
      def pushed(job, worker, result, place)
        handle = result.handles[place]
        job.provider_job_id = provider_job_id(worker, handle) if handle
        job.successfully_enqueued = !handle.nil? if job.respond_to?(:successfully_enqueued=)
        return if handle

        error = EnqueueError.new(why_not(worker, result.refused_at.include?(place)))
        job.respond_to?(:enqueue_error=) ? job.enqueue_error = error : raise(error)
      end

      def why_not(worker, refused)
        return "an id of queue #{worker.queue_name} waits already, and its on_waiting is #{worker.on_waiting}" if refused

        "queue #{worker.queue_name} did not get the job: a client middleware has not pushed it, or has changed it"
      end

      def by_handle(provider_job_id)
        name, colon, handle = provider_job_id.is_a?(String) ? provider_job_id.rpartition(":") : []
        Validate.refuse("provider_job_id", "that of a job which Seriatim enqueued", provider_job_id) if colon.to_s.empty? || name.empty?
        yield queue(name), handle
      end

      def scheduled_in(worker, class_name)
        worker.queries.range_by_deliver_at("-inf", "+inf", limit: FAR).filter_map do |row|
          job = row[:payload]
          next unless job.is_a?(Hash) && (class_name.nil? || job["job_class"] == class_name)

          { job_class: job["job_class"], job_id: job["job_id"], queue: worker.queue_name, id: row[:id], arguments: job["arguments"],
            scheduled_at: row[:deliver_at], provider_job_id: provider_job_id(worker, row[:handle]) }
        end
      end

      # A class whose queue_as has a block has a name only with a job.
      def loaded_queues
        classes = ::ActiveJob::Base.descendants.select { |job_class| job_class.queue_adapter.is_a?(::ActiveJob::QueueAdapters::SeriatimAdapter) }
        names = classes.map { |job_class| own_queue(job_class) }.grep(String)
        names.concat(mail_queues) if defined?(::ActionMailer::Base) && !classes.empty?
        names.uniq
      end

      # What ActiveJob calls the queue of a job of this class: the prefix may be that of the class.
      def own_queue(job_class)
        name = job_class.queue_name
        name.is_a?(Proc) && name.equal?(DEFAULT_NAME) ? job_class.queue_name_from_part(nil) : name
      end

      # From Rails 7.1 a mailer may have one of its own.
      def mail_queues
        [::ActionMailer::Base, *::ActionMailer::Base.descendants].map { |mailer| ::ActiveJob::Base.queue_name_from_part(mailer.deliver_later_queue_name) }
      end
    end

    Workers.sources << method(:workers)
    ::ActiveJob::Base.extend(Ordering)
    ::ActiveJob::Base.before_perform(prepend: true) { |job| Run.current&.check_context(job) }
  end
end
