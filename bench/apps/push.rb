# frozen_string_literal: true

# push.rb APP single|together|pipelined|bulk|fill|wait COUNT - pushes and prints the seconds that it took. `single` is one job a call;
# `together` the same from 8 threads; `pipelined` from 8 threads, 100 calls in a pipeline; all others are 10,000 jobs a call. `fill` and
# `wait` leave exactly COUNT jobs, `wait` ones with a payload of 30 bytes.
app, mode, count = ARGV
require_relative app

BULK = 10_000
PIPELINE = 100
THREADS = 8
PAYLOAD = "x" * 28 # 30 bytes as JSON

def push(mode, ids)
  case mode
  when "single" then ids.each { |id| App.single(id) }
  when "together" then in_threads(ids) { |part| push("single", part) }
  when "pipelined" then in_threads(ids) { |part| part.each_slice(PIPELINE) { |slice| App.pipelined(slice) } }
  when "wait" then ids.each_slice(BULK) { |slice| App.wait(slice, PAYLOAD) }
  else ids.each_slice(BULK) { |slice| App.bulk(slice) }
  end
end

# Each thread gets the same part of the ids.
def in_threads(ids, &block)
  ids.each_slice((ids.size / THREADS.to_f).ceil).map { |part| Thread.new(part, &block) }.each(&:join)
end

push(mode, Array.new(%w[single bulk].include?(mode) ? 1 : THREADS, 0)) unless %w[fill wait].include?(mode) # connects each thread
start = Count.now
push(mode, 1..count.to_i)
puts Count.now - start
