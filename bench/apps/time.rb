# frozen_string_literal: true

# time.rb APP - pushes BENCH_JOBS jobs, 20 ms apart, each with the time just before its push.
require_relative "#{ARGV.fetch(0)}_latency"

Count::JOBS.times do |id|
  App.timed(id)
  sleep 0.02
end
