# frozen_string_literal: true

# seriatim_backlog.rb - the server of seriatim_latency.rb with a second queue, whose jobs take a millisecond and
# count from 0. Shards take turns: the built-in scheduler runs what is older first, all of the backlog.
require_relative "seriatim_latency"

module BacklogWorker
  extend Seriatim::Worker

  def self.perform(_payloads_by_id)
    sleep 0.001
    Count.note(0)
  end
end

Seriatim.workers = [LatencyWorker, BacklogWorker]
Seriatim.build_scheduler = -> { Seriatim.build_seq_scheduler }

module App
  def self.bulk(ids) = BacklogWorker.perform_async(ids.map { |id| { id: id } })
end
