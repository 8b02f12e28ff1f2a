# frozen_string_literal: true

# orders.rb - an application, for bench/reshard: `serve` runs the jobs of BlankWorker; `push JOBS WAITING MOST` pushes as fast as it can,
# JOBS in a call, each of an id of its own, while at most MOST wait besides the WAITING that are there. Both until they are told to end by TERM.
# To ask how many wait costs a script for each shard, so it is asked once a thousand jobs.
require "seriatim"

module BlankWorker
  extend Seriatim::Worker

  def self.perform(_payloads_by_id) = nil
end

Seriatim.logger.level = Logger::WARN
Seriatim.workers = [BlankWorker]

def push(jobs, most)
  number = 0
  loop do
    (1000 / jobs).times { BlankWorker.perform_async(Array.new(jobs) { { id: number += 1, payload: { order: number } } }) }
    sleep 0.005 while BlankWorker.metrics[:length] > most
  end
end

mode, jobs, waiting, most = ARGV
if mode == "serve"
  server = Seriatim::Server.new
  server.start
  ended = Queue.new
  trap("TERM") { ended << true }
  ended.pop
  server.stop
else
  push(jobs.to_i, waiting.to_i + most.to_i)
end
