# frozen_string_literal: true

# An application whose job for the id "bad" aborts its process; APPEND names the file of its starts.
require "seriatim"

module Poison
  extend Seriatim::Worker
  self.queue_name = "Poison"
  self.shards_count = 4
  self.batch_size = 10
  self.max_retry_count = Integer(ENV.fetch("RETRIES"))

  def self.retry_in(_count) = 0.05

  def self.perform(payloads_by_id, batch)
    payloads_by_id.each_key do |id|
      File.write(ENV.fetch("APPEND"), "#{id} #{batch.retry_count(id)}\n", mode: "a")
      Process.kill(:ABRT, Process.pid) && sleep if id == "bad"
    end
  end
end

Seriatim.lease_time = 0.4
Seriatim.poll_interval = 0.1
Seriatim.workers = [Poison]
