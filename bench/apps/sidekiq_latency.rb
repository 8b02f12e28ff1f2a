# frozen_string_literal: true

# sidekiq_latency.rb - a server that notes when each job is performed.
require "sidekiq"
require_relative "count"

class LatencyJob
  include Sidekiq::Job

  def perform(pushed) = Count.note(pushed)
end

Sidekiq.default_configuration.logger.level = Logger::WARN

module App
  def self.timed(_id, pushed) = LatencyJob.perform_async(pushed)
end
