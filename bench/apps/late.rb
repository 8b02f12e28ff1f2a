# frozen_string_literal: true

# late.rb - a server that notes how late each scheduled payload comes: a line "ID NUMBER DELIVER_AT SECONDS" in the file BENCH_RESULT.
require "seriatim"

RESULT = File.open(ENV.fetch("BENCH_RESULT"), "a")

module LateWorker
  extend Seriatim::Worker

  def self.perform(payloads_by_id)
    now = Time.now.to_f
    lines = payloads_by_id.flat_map { |id, payloads| payloads.map { |payload| "#{id} #{payload["n"]} #{payload["at"]} #{now - payload["at"].to_f}\n" } }
    RESULT.syswrite(lines.join)
  end
end

Seriatim.workers = [LateWorker]
