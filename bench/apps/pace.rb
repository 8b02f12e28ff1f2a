# frozen_string_literal: true

# pace.rb APP - pushes jobs by the schedule of Count::Pace, each with the time from which it counts.
require_relative "#{ARGV.fetch(0)}_latency"

Count.pace { |number, pushed| App.timed(number, pushed) }
