# frozen_string_literal: true

require_relative "../../support/redis_server"

# A Redis of the run's own that may be stopped and started, also while it loads its file.
class RestartableRedis < RedisServer
  def restart(signal)
    stop(signal)
    start
  end

  private

  def wait_until_ready
    super
  rescue RuntimeError => e
    e.message.start_with?("LOADING") ? retry : raise
  end
end
