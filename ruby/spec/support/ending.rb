# frozen_string_literal: true

# Ends again and again, in a child each time, while its threads wait and run jobs. ARGV: URL, URL of a Redis that never
# answers, how often. Writes a line a time: the way, the seconds from the call to the end, the exit code or signal, whether all
# shards were handed back.
require "seriatim"
require "timeout"

WAYS = {
  "exit" => -> { exit 7 }, "raise" => -> { raise "end" }, "abort" => -> { abort }, "return" => -> {},
  "exit in a thread" => -> { Thread.new { exit 7 }.join && sleep }, "the end of the main thread" => -> { Thread.current.kill },
  "exit at exit" => -> { at_exit { exit 7 } }, "an unhandled TERM" => -> { Process.kill(:TERM, Process.pid) && sleep },
  "an interrupted stop" => -> { interrupt_stop && exit(7) }
}.freeze

def interrupt_stop
  Timeout.timeout(0.1) { Seriatim::Server.running.first.stop(60) }
rescue Timeout::Error
  true
end

# Holds its job until the end.
module Ending
  extend Seriatim::Worker
  self.shards_count = 2

  class << self
    attr_accessor :begun

    def retry_in(_count) = 60

    def perform(_payloads_by_id)
      begun << true
      sleep
    end
  end
end

def wait_in_threads(deaf)
  Ending.begun = Thread::Queue.new
  Ending.perform_async([{ id: 1 }, { id: 2 }])
  Seriatim::Server.new(workers: [Ending], threads: 4).start
  Timeout.timeout(60) { 2.times { Ending.begun.pop } }
  link = Seriatim.module_eval { const_get(:Connection) }.new(deaf, "seriatim")
  Thread.new { link.layout(Ending.queue_settings) }
  sleep 0.01
end

def child(way, url, deaf)
  $stderr.reopen(File::NULL)
  Seriatim.redis = url
  Seriatim.logger = nil
  Seriatim.lease_time = 2
  wait_in_threads(deaf)
  File.write(ARGV[3], Process.clock_gettime(Process::CLOCK_MONOTONIC).to_s)
  way.call
end

# What is handed back has no owner; what is not keeps its owner until the next server.
def handed_back?
  40.times { Ending.metrics[:shards].all? { |shard| shard[:owner].nil? } ? (return true) : sleep(0.05) }
  false
end

$stdout.sync = true
url, deaf, count = ARGV
Seriatim.redis = url
count.to_i.times do |number|
  name, way = WAYS.to_a[number % WAYS.size]
  _, status = Process.wait2(fork { child(way, url, deaf) })
  seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - File.read(ARGV[3]).to_f
  puts [name, seconds.round(3), status.exitstatus || Signal.signame(status.termsig), handed_back?].join(",")
end
