# frozen_string_literal: true

# An application as a user has it, with the one line that the crash kit needs.
require "seriatim"
require_relative "../record"

module OrderWorker
  extend Seriatim::Worker
  self.shards_count = 8
  self.batch_size = 3
  def self.retry_in(_count) = 0.05
  def self.perform(payloads_by_id) = payloads_by_id.each_value { |payloads| sleep(0.001 * payloads.size) }
end

Seriatim.workers = [OrderWorker]
