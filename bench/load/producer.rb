# frozen_string_literal: true

# producer.rb APP FIRST COUNT RATE - pushes COUNT items from number FIRST on to the first stage, one a call, RATE a second.
# Prints when each was pushed.
app, first, count, rate = ARGV
require_relative app
require "digest"

start = Stages.now
$stdout.sync = false
Integer(count).times do |place|
  number = Integer(first) + place
  ahead = start + (place / Float(rate)) - Stages.now
  sleep ahead if ahead.positive?
  at = Stages.now
  id = "#{number % 7}-#{Digest::SHA256.hexdigest("#{number}-order-#{number % 11}")[0, 32]}"
  First.perform_async([{ id: id, payload: { "at" => at, "n" => number }, score: number }])
  puts "#{number} #{at} #{at}"
end
