# frozen_string_literal: true

require "seriatim/active_job"

module ActiveJob
  module QueueAdapters
    # Runs the jobs of ActiveJob on Seriatim: `config.active_job.queue_adapter = :seriatim`. Rails 6.1 and later.
    #
    # A job is one payload of an id, which +ordered_by+ of its class gives: jobs with one id run one after another, in the order in which
    # they were enqueued. A job that retries (retry_on, retry_job) keeps its place, and later jobs of its id wait for it.
    class SeriatimAdapter < (const_defined?(:AbstractAdapter) ? const_get(:AbstractAdapter) : Object)
      # Sets job.provider_job_id, which {Seriatim::ActiveJob.cancel} takes.
      # @raise [Seriatim::Error] Redis cannot be reached or refuses
      # @raise [Seriatim::ActiveJob::EnqueueError] the queue has on_waiting :reject or :unique, and the id waits; or a client
      #   middleware did not push the job
      def enqueue(job) = Seriatim::ActiveJob.enqueue(job)

      # @param timestamp [Numeric] Unix seconds
      def enqueue_at(job, timestamp) = Seriatim::ActiveJob.enqueue(job, timestamp)

      # Pushes the jobs in one call for each queue.
      # @return [Integer] how many were enqueued
      def enqueue_all(jobs) = Seriatim::ActiveJob.enqueue_all(jobs)

      # Rails 7.2 asks: is the job to be enqueued after the commit of the transaction in which perform_later was called?
      def enqueue_after_transaction_commit? = true

      # Rails 8.1 and later ask: is a job that can go on later to interrupt itself?
      def stopping?(_job = nil) = Seriatim::ActiveJob.stopping?
    end
  end
end
