# frozen_string_literal: true

# sidekiq_backlog.rb - what seriatim_backlog.rb is; the server is told to serve the queues default and backlog.
require_relative "sidekiq_latency"

class BacklogJob
  include Sidekiq::Job

  sidekiq_options queue: "backlog"

  def perform(_id)
    sleep 0.001
    Count.note(0)
  end
end

module App
  def self.bulk(ids) = Sidekiq::Client.push_bulk("class" => BacklogJob, "args" => ids.map { |id| [id] }, batch_size: 10_000)
end
