# frozen_string_literal: true

# Measures PING against the Unix socket until TERM; prints the count, the longest in ms, and how many took over 20 ms.
require "socket"

stop = false
trap("TERM") { stop = true }
trips = []
UNIXSocket.open(ARGV.fetch(0)) do |socket|
  $stdout.write(" start ")
  $stdout.flush
  until stop
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    socket.write("PING\r\n")
    socket.gets
    trips << ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - before) * 1000)
  end
end
puts trips.size, trips.max, trips.count { |trip| trip > 20 }
