# frozen_string_literal: true

# Its main thread waits in one call after another, beside another thread, against a Redis that never answers. Each USR1
# writes when its handler ran; USR2 leaves the wait by an exception, as Ctrl-C does. ARGV: URL, the other thread.
require "seriatim"

NEXT = Class.new(Exception)
CLOCK = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }

module Waiting
  extend Seriatim::Worker
  def self.perform(payloads_by_id) = payloads_by_id
end

Seriatim.redis = ARGV[0]
Seriatim.client_pool_size = 2
Seriatim.pool_timeout = 100
trap("USR1") { $stdout.syswrite("#{CLOCK.call}\n") }
trap("USR2") { raise NEXT }

def beside(&code) = Thread.new { loop(&code) }

def other(kind)
  case kind
  when "exited" then Thread.new { nil }.join
  when "sleeping" then beside { sleep }
  when "busy" then beside { 1 + 1 }
  when "waiting" then beside { Waiting.metrics }
  end
end

other(ARGV[1])
waits = {
  "push" => -> { Waiting.perform_async([{ id: 1 }]) },
  "query" => -> { Waiting.metrics },
  "pool" => lambda do
    2.times { Thread.new { Waiting.metrics }.report_on_exception = false }
    sleep 0.05
    Waiting.metrics
  end
}
waits.each do |name, wait|
  $stdout.syswrite("#{name}\n")
  wait.call
  abort "#{name} came back"
rescue NEXT
  $stdout.syswrite("#{CLOCK.call}\n")
end
