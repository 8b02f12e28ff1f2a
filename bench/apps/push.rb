# frozen_string_literal: true

# push.rb APP single|bulk|fill|wait COUNT - pushes and prints the seconds that it took. `single` is one job a call,
# all others are 10,000 a call; `fill` and `wait` leave exactly COUNT jobs, `wait` ones with a payload of 30 bytes.
app, mode, count = ARGV
require_relative app

BULK = 10_000
PAYLOAD = "x" * 28 # 30 bytes as JSON

def push(mode, count)
  return (1..count).each { |id| App.single(id) } if mode == "single"

  (1..count).each_slice(BULK) { |ids| mode == "wait" ? App.wait(ids, PAYLOAD) : App.bulk(ids) }
end

App.public_send(mode, mode == "single" ? 0 : [0]) if %w[single bulk].include?(mode) # connects
start = Count.now
push(mode, count.to_i)
puts Count.now - start
