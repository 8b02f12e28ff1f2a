# frozen_string_literal: true

require File.join(ENV.fetch("SERIATIM_TREE"), "spec/support/redis_server")

# How the integration suite of ActiveJob sets up Seriatim, and starts and stops a server.
module SeriatimJobsManager
  REDIS = RedisServer.new

  def setup
    require "seriatim"
    Seriatim.redis = REDIS.url
    ActiveJob::Base.queue_adapter = :seriatim
    Seriatim::ActiveJob.queues = ["integration_tests"]
  end

  def clear_jobs
    %w[integration_tests some_other_queue].each { |name| clear(Seriatim::ActiveJob.queue(name)) }
  end

  def start_workers = @server = Seriatim::Server.new(queues: ["integration_tests"]).start

  def stop_workers
    @server.stop(1)
    Minitest.after_run { REDIS.remove }
  end

  def can_run? = true

  private

  def clear(queue)
    waiting = queue.queries.range_by_id("-", "+") + queue.queries.range_by_deliver_at("-inf", "+inf")
    queue.actions.delete(waiting.map { |row| row[:id] }.uniq)
    queue.actions.morgue_delete_all_jobs
  end
end
