# frozen_string_literal: true

# An application whose jobs fail for good. Its retries_exhausted kills the process before it notes the id "kills", the first
# time; APPEND names the file of the notes.
require "seriatim"

module Hooks
  extend Seriatim::Worker
  self.queue_name = "Hooks"
  self.shards_count = 1
  self.batch_size = 10
  self.max_retry_count = 0

  def self.perform(_payloads_by_id) = raise("for good")

  def self.retries_exhausted(jobs)
    jobs.each do |job|
      mark = "#{ENV.fetch("APPEND")}.killed"
      if job[:id] == "kills" && !File.exist?(mark)
        File.write(mark, "")
        Process.kill(:KILL, Process.pid) && sleep
      end
      File.write(ENV.fetch("APPEND"), "#{job[:id]} #{job[:payloads].size} #{job[:payloads_count]} #{job[:error]}".lines.first.chomp + "\n", mode: "a")
    end
  end
end

Seriatim.lease_time = 0.4
Seriatim.workers = [Hooks]
