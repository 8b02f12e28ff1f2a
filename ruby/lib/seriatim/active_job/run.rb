# frozen_string_literal: true

module Seriatim
  module ActiveJob
    # The jobs of an id in one delivery, run one after another. Each that has ended is not run again, whatever becomes of the next.
    # @api private
    class Run
      # @return [Run, nil] the one of this thread
      def self.current = Thread.current[:seriatim_active_job]

      # @param jobs [Array<Hash>] serialized
      def initialize(worker, batch, id, jobs)
        @worker = worker
        @batch = batch
        @id = id
        @jobs = jobs
      end

      def call
        outer = Run.current
        Thread.current[:seriatim_active_job] = self
        run
      ensure
        Thread.current[:seriatim_active_job] = outer
      end

      # Is this the running job, which is to run again? Then it does so in its place, and the later jobs of the id wait for it. On another
      # queue it has no place.
      def takes_over?(job, timestamp)
        return false unless @running && job.job_id == @running["job_id"] && job.queue_name == @worker.queue_name

        @again = [timestamp, ActiveJob.payload_of(job)]
        true
      end

      # Called when ActiveJob is about to perform a job, where its class may handle what is raised.
      # @raise [::ActiveJob::DeserializationError] the attributes that it was enqueued with cannot be read
      def check_context(job)
        raise @broken if @broken && job.job_id == @running["job_id"]
      end

      private

      def run
        @jobs.each_with_index do |job, place|
          execute_with_retries(job, place)
          return snooze if @again
          break if place + 1 == @jobs.size

          @batch.checkpoint(@id, place + 1)
          return @batch.snooze(@id, 0) if ActiveJob.stopping? # another server runs the others; this one might have to kill one
        end
      end

      # In the test mode :inline retries run at once, too, whatever their time.
      def execute_with_retries(job, place)
        execute(job, place)
        execute(@again.last, place) while @again && inline?
      end

      def inline? = Seriatim.const_defined?(:Testing, false) && Testing.current.is_a?(Testing::Inline)

      def execute(job, place)
        @again = nil
        @running = job
        numbered = job.merge("provider_job_id" => ActiveJob.provider_job_id(@worker, handles[place]))
        reloaded { in_context(place) { perform(numbered) } }
      ensure
        @running = @broken = nil
      end

      # Each job as with other adapters: by itself.
      def reloaded(&block)
        reloader = Rails.reloader if Seriatim.const_defined?(:Rails, false)
        reloader ? reloader.around_job(@worker, @batch, @id, &block) : yield
      end

      # With the attributes that the job was enqueued with, if the application carries them.
      def in_context(place)
        return yield unless CurrentAttributes.persists?

        begun = false
        CurrentAttributes.with(contexts[place]) do
          begun = true
          yield
        end
      rescue ::ActiveJob::DeserializationError => e
        raise if begun

        @broken = e
        yield
      end

      # Read once: the batch parses those of all jobs at each call.
      def contexts = @contexts ||= @batch.contexts(@id)

      # Read once, as the contexts are.
      def handles = @handles ||= @batch.handles(@id)

      def perform(job)
        ::ActiveJob::Base.execute(job)
      rescue StandardError
        raise unless @again # it is to run again although it raised
      end

      def snooze
        timestamp, job = @again
        @batch.snooze(@id, timestamp ? [timestamp - Time.now.to_f, 0].max : 0, payload: job)
      end
    end
  end
end
