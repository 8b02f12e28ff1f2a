# frozen_string_literal: true

require_relative "spec_helper"

# A server holds what has ended, to settle many ids at once; what is pushed behind a run does not wait for that.
RSpec.describe "an id that is pushed again and again" do
  # Pushes an id every 10 ms. Returns how many runs it had for each push.
  def runs_per_push(pushes)
    recorder = worker("PushedAgain", shards_count: 1)
    serve(recorder)
    recorder.perform_async([{ id: 1, payload: "first" }])
    runs(recorder)
    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    pushes.times do |i|
      wait = from + (i * 0.01) - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep wait if wait.positive?
      recorder.perform_async([{ id: 1, payload: i }])
    end
    drained(recorder)
    stop_servers
    recorder.runs.size.fdiv(pushes)
  end

  # While each end were held for 35 ms, there would be one run for three pushes. A machine that is busy may unite some more:
  # then it is tried again.
  it "R-RUN-11: has a run for each push" do
    expect(Array.new(8).lazy.map { runs_per_push(100) }.find { |share| share > 0.6 }).to be_truthy
  end
end
