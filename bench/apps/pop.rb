# frozen_string_literal: true

# pop.rb SECONDS - pops and acknowledges single ids of BlankWorker. It says "ready" when it is connected, waits for a line, and prints how
# many ids it has acknowledged in how many seconds.
require "seriatim"
require_relative "count"

def pop_one
  delivery = Seriatim.pop("BlankWorker", wait: 0) or abort "nothing is left to pop"
  delivery.ack
end

pop_one
puts "ready"
$stdout.flush
$stdin.gets
count = 0
start = Count.now
until (seconds = Count.now - start) >= ARGV[0].to_f
  pop_one
  count += 1
end
puts "#{count} #{seconds}"
