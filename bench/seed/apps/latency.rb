# frozen_string_literal: true

# latency.rb - a server that notes how long each job took from just before its push to perform. Run by itself it is
# the pusher: 500 jobs, 20 ms apart.
require "seriatim"
require_relative "count"

module LatencyWorker
  extend Seriatim::Worker

  @seconds = []

  def self.perform(payloads_by_id)
    @seconds << (Count.now - payloads_by_id.values.first.first)
    Count.report(@seconds.join(" ")) if @seconds.size == Count::JOBS
  end
end

Seriatim.workers = [LatencyWorker]
Seriatim.logger.level = Logger::WARN

if $PROGRAM_NAME == __FILE__
  Count::JOBS.times do |id|
    LatencyWorker.perform_async([{ id: id, payload: Count.now }])
    sleep 0.02
  end
end
