# frozen_string_literal: true

require "seriatim"
require "stringio"
require "timeout"
require_relative "../../spec/support/redis_server"
require_relative "support/jobs_helper"

# nohup ignores HUP, and so would what the examples start; a signal with a handler has its default action there.
before = trap("HUP") { nil }
trap("HUP", before) unless before == "IGNORE"

REDIS = RedisServer.new

RSpec.configure do |config|
  config.include JobsHelper
  config.disable_monkey_patching!
  config.example_status_persistence_file_path = nil
  config.order = :random

  config.around do |example|
    Timeout.timeout(example.metadata.fetch(:limit, 240)) { example.run }
  end

  config.before do
    REDIS.flush
    @log = StringIO.new
    Seriatim.reset_settings
    Seriatim.format_error = :message.to_proc # most tests compare what is stored with what was raised
    Seriatim.redis = REDIS.url
    Seriatim.push_timeout = 50 # a loaded machine may hold a push up
    Seriatim.logger = Seriatim::Log.default(@log, level: Logger::DEBUG)
    Seriatim.poll_interval = 0.2
    Seriatim.lease_time = 5
  end

  config.after { stop_servers }
  config.after(:suite) { REDIS.remove }
end
