# frozen_string_literal: true

# An application of the gem lowkiq: `lowkiq -r` runs its server, in which every job fails or never ends. With a word:
# `push` pushes what standard input says, one JSON list of jobs a line; `produce` pushes one payload after another, from 3 on, to the
# ids that the first line of standard input names, until its end.
require "json"
require "lowkiq"

Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)

module LowkiqApp
  extend Lowkiq::Worker
  self.queue_name = "Shop"
  self.batch_size = 20
  self.max_retry_count = 3

  class << self
    def retry_in(_retry_count) = 3600

    def perform(payloads_by_id)
      sleep if payloads_by_id.keys.any? { |id| id.start_with?("running") }
      raise "no stock"
    end

    def push_from(input)
      input.each_line { |line| perform_async(JSON.parse(line, symbolize_names: true)) }
    end

    # Prints the number of the last payload, which every id has got.
    def produce(ids, number)
      ending = Thread.new { $stdin.read }
      while ending.alive?
        number += 1
        ids.each_slice(50) { |slice| perform_async(slice.map { |id| { id: id, payload: number, score: number } }) }
        sleep(0.02)
      end
      puts number
    end
  end
end

Lowkiq.workers = [LowkiqApp]
Lowkiq.poll_interval = 0.1

case ARGV.first
when "push" then LowkiqApp.push_from($stdin)
when "produce" then LowkiqApp.produce(JSON.parse($stdin.gets), 2)
end
