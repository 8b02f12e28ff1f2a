# frozen_string_literal: true

# sidekiq_latency.rb - a server that notes how long each job took from just before its push to perform.
require "sidekiq"
require_relative "count"

class LatencyJob
  include Sidekiq::Job

  def perform(pushed) = Count.note(pushed)
end

Sidekiq.default_configuration.logger.level = Logger::WARN

module App
  def self.timed(_id) = LatencyJob.perform_async(Count.now)
end
