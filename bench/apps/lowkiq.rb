# frozen_string_literal: true

require "hiredis"
require "redis"
require "lowkiq"
require_relative "count"

module BlankWorker
  extend Lowkiq::Worker

  def self.perform(_payloads_by_id) = Count.up
end

Lowkiq.workers = [BlankWorker]
Lowkiq.redis = -> { Redis.new(url: ENV.fetch("REDIS_URL"), driver: :hiredis) }

module App
  def self.single(id) = BlankWorker.perform_async([{ id: id }])
  def self.bulk(ids) = BlankWorker.perform_async(ids.map { |id| { id: id } })
  def self.wait(ids, payload) = BlankWorker.perform_async(ids.map { |id| { id: id, payload: payload } })
end
