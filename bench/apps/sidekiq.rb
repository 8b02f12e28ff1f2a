# frozen_string_literal: true

require "sidekiq"
require_relative "count"

class BlankJob
  include Sidekiq::Job

  def perform(_id, _payload = nil) = Count.up
end

Sidekiq.default_configuration.logger.level = Logger::WARN
Sidekiq.configure_client { |config| config.redis = { size: 8 } } # as many as threads that push

module App
  def self.single(id) = BlankJob.perform_async(id)
  def self.bulk(ids) = push(ids.map { |id| [id] })
  def self.wait(ids, payload) = push(ids.map { |id| [id, payload] })
  def self.push(arguments) = Sidekiq::Client.push_bulk("class" => BlankJob, "args" => arguments, batch_size: 10_000)
end
