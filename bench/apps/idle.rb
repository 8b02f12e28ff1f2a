# frozen_string_literal: true

# idle.rb - a server of BENCH_QUEUES queues that get no jobs.
require "seriatim"

Seriatim.workers = Array.new(Integer(ENV.fetch("BENCH_QUEUES"))) do |number|
  Module.new do
    extend Seriatim::Worker
    self.queue_name = "idle-#{number}"

    def self.perform(_payloads_by_id) = nil
  end
end
Seriatim.logger.level = Logger::WARN
