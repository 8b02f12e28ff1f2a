# frozen_string_literal: true

# seriatim_latency.rb - a server that notes how long each job took from just before its push to perform.
require "seriatim"
require_relative "count"

module LatencyWorker
  extend Seriatim::Worker

  def self.perform(payloads_by_id) = Count.note(payloads_by_id.values.first.first)
end

Seriatim.workers = [LatencyWorker]
Seriatim.logger.level = Logger::WARN

module App
  def self.timed(id) = LatencyWorker.perform_async([{ id: id, payload: Count.now }])
end
