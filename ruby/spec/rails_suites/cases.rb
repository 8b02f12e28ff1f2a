# frozen_string_literal: true

require "active_job/queue_adapters/seriatim_adapter"
require "minitest"
require "timeout"
require File.join(ENV.fetch("SERIATIM_TREE"), "spec/support/redis_server")

# R-JOB-10: what the suites expect of an adapter whose jobs run at once: a job that is enqueued has run on a server of this process when enqueue
# returns, whatever its time, and the error that left it is raised there.
module RunsAtOnce
  REDIS = RedisServer.new
  Seriatim.redis = REDIS.url
  Seriatim.logger = nil
  SERVER = Seriatim::Server.new(workers: [Seriatim::ActiveJob.queue("default")]).start
  ENDS = Hash.new { |ends, job_id| ends[job_id] = Thread::Queue.new }
  LOCK = Mutex.new

  # What tells how a job has ended, unless it is to run again.
  module Ends
    def execute(job)
      super
    rescue Exception => e # rubocop:disable Lint/RescueException
      raise
    ensure
      RunsAtOnce.ends(job["job_id"]) << e unless @again
    end
  end

  # The adapter itself, with waits.
  module Waits
    def enqueue(job) = RunsAtOnce.await([job]) { super }
    def enqueue_at(job, _timestamp) = enqueue(job)
    def enqueue_all(jobs) = RunsAtOnce.await(jobs) { super }
  end

  class << self
    def ends(job_id) = LOCK.synchronize { ENDS[job_id] }

    def await(jobs)
      jobs.each { |job| serve(job.queue_name) }
      place = Seriatim::ActiveJob::Run.current
      new, = jobs.partition { |job| !place&.takes_over?(job, nil) }
      result = yield
      new.each { |job| Timeout.timeout(60) { ends(job.job_id).pop }&.then { |error| raise error } }
      result
    end

    def serve(queue)
      @served ||= ["default"]
      @served.include?(queue) || (@served << queue && SERVER.serve(Seriatim::ActiveJob.queue(queue)))
    end
  end

  Seriatim::ActiveJob::Run.prepend(Ends)
  ActiveJob::QueueAdapters::SeriatimAdapter.prepend(Waits)
  Minitest.after_run { SERVER.stop(1) && REDIS.remove }
end

ActiveJob::Base.queue_adapter = :seriatim
# The suites compare the adapter with this one, whose gem is not needed for that.
ActiveJob::QueueAdapters.const_set(:SneakersAdapter, Class.new) unless Gem::Specification.find_all_by_name("sneakers").any?
