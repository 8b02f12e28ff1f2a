# frozen_string_literal: true

require "sidekiq"
require_relative "count"

class BlankJob
  include Sidekiq::Job

  def perform(_id, _payload = nil) = Count.up
end

Sidekiq.default_configuration.logger.level = Logger::WARN

module App
  def self.single(id) = BlankJob.perform_async(id)
  def self.bulk(ids) = BlankJob.perform_bulk(ids.map { |id| [id] })
  def self.wait(ids, payload) = BlankJob.perform_bulk(ids.map { |id| [id, payload] })
end
