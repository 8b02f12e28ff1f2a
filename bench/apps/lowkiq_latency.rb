# frozen_string_literal: true

# lowkiq_latency.rb - a server that notes when each job is performed.
require "hiredis"
require "redis"
require "lowkiq"
require_relative "count"

module LatencyWorker
  extend Lowkiq::Worker

  def self.perform(payloads_by_id) = Count.note(payloads_by_id.values.first.first)
end

Lowkiq.workers = [LatencyWorker]
Lowkiq.redis = -> { Redis.new(url: ENV.fetch("REDIS_URL"), driver: :hiredis) }

module App
  def self.timed(id, pushed) = LatencyWorker.perform_async([{ id: id, payload: pushed }])
end
