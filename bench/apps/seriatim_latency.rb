# frozen_string_literal: true

# seriatim_latency.rb - a server that notes when each job is performed.
require "seriatim"
require_relative "count"

module LatencyWorker
  extend Seriatim::Worker

  def self.perform(payloads_by_id) = Count.note(payloads_by_id.values.first.first)
end

Seriatim.workers = [LatencyWorker]
Seriatim.logger.level = Logger::WARN

module App
  def self.timed(id, pushed) = LatencyWorker.perform_async([{ id: id, payload: pushed }])
end
