# frozen_string_literal: true

# Pushes to a Redis that cannot be found, beside a thread that counts time. Writes the error, and the longest time in
# seconds that the other thread stood still. ARGV: URL.
require "seriatim"

CLOCK = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }

module LookingUp
  extend Seriatim::Worker
  def self.perform(payloads_by_id) = payloads_by_id
end

Seriatim.redis = ARGV[0]
Seriatim.push_timeout = 1
longest = 0
ended = false
thread = Thread.new do
  last = CLOCK.call
  until ended
    sleep 0.01
    now = CLOCK.call
    longest = [longest, now - last].max
    last = now
  end
end
begin
  LookingUp.perform_async([{ id: 1 }])
rescue Seriatim::Error => e
  puts e.message
end
ended = true
thread.join
puts longest
