# frozen_string_literal: true

# stackprof_around.rb - required by a Ruby process: notes in PROFILE_RESULT where it spent its time, by methods.
require "json"
require "stackprof"

StackProf.start(mode: :cpu, interval: 500)

at_exit do
  StackProf.stop
  frames = StackProf.results.fetch(:frames).values
  File.write(ENV.fetch("PROFILE_RESULT"), JSON.generate(frames.map { |frame| frame.values_at(:samples, :name) }))
end
