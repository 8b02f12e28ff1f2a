# frozen_string_literal: true

require "hiredis"
require "redis"
require "lowkiq"
require_relative "stages"

module First
  extend Lowkiq::Worker
  self.shards_count = Stages::SHARDS["first"]
  self.batch_size = Stages::BATCH

  def self.perform(payloads_by_id) = Stages.first(payloads_by_id) { |jobs| Second.perform_async(jobs) }
end

module Second
  extend Lowkiq::Worker
  self.shards_count = Stages::SHARDS["second"]
  self.batch_size = Stages::BATCH

  def self.perform(payloads_by_id) = Stages.second(payloads_by_id)
end

Lowkiq.workers = [First, Second]
Lowkiq.redis = -> { Redis.new(url: ENV.fetch("REDIS_URL"), driver: :hiredis) }
Lowkiq.threads_per_node = Integer(ENV.fetch("LOAD_THREADS"))
Lowkiq.client_pool_size = 50
Lowkiq.build_splitter = -> { Lowkiq.build_by_node_splitter(2, Integer(ENV.fetch("LOAD_NODE", "0"))) }
