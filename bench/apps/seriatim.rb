# frozen_string_literal: true

require "seriatim"
require_relative "count"

module BlankWorker
  extend Seriatim::Worker

  def self.perform(_payloads_by_id) = Count.up
end

Seriatim.workers = [BlankWorker]
Seriatim.logger.level = Logger::WARN
Seriatim.client_pool_size = 8 # as many as threads that push

module App
  def self.single(id) = BlankWorker.perform_async([{ id: id }])
  def self.pipelined(ids) = Seriatim.pipelined { ids.each { |id| single(id) } }
  def self.bulk(ids) = BlankWorker.perform_async(ids.map { |id| { id: id } })
  def self.wait(ids, payload) = BlankWorker.perform_async(ids.map { |id| { id: id, payload: payload } })
end
