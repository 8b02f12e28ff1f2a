# frozen_string_literal: true

require "seriatim"
require_relative "stages"

module First
  extend Seriatim::Worker
  self.shards_count = Stages::SHARDS["first"]
  self.batch_size = Stages::BATCH
  self.priority = 1 if ENV["LOAD_PRIORITY"]

  def self.perform(payloads_by_id) = Stages.first(payloads_by_id) { |jobs| Second.perform_async(jobs) }
end

module Second
  extend Seriatim::Worker
  self.shards_count = Stages::SHARDS["second"]
  self.batch_size = Stages::BATCH

  def self.perform(payloads_by_id) = Stages.second(payloads_by_id)
end

Seriatim.workers = [First, Second]
Seriatim.build_scheduler = -> { Seriatim.build_priority_scheduler } if ENV["LOAD_PRIORITY"]
Seriatim.client_pool_size = 50
Seriatim.logger.level = Logger::WARN
