# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "failure" do
  def fetch(worker, id) = worker.queries.fetch([id]).first

  it "LK-A-9: a failed id unites with what was pushed meanwhile", :core do
    recorder = nil
    recorder = worker("A9") do
      recorder.perform_async([{ id: 1, payload: "v1", score: 50 }, { id: 1, payload: "v3", score: 3 }])
      raise "nope"
    end
    recorder.define_singleton_method(:retry_in) { |_| 10 }
    recorder.perform_async([{ id: 1, payload: "v1", score: 1 }, { id: 1, payload: "v2", score: 2 }])
    serve(recorder)
    runs(recorder)
    record = eventually { fetch(recorder, 1) }
    expect(record).to include(payloads: [["v1", 1.0], ["v2", 2.0], ["v3", 3.0]], retry_count: 0, error: "nope",
                              perform_in: be_within(1).of(now + 10))
  end

  it "LK-A-10: what comes back from the morgue unites with what waits" do
    recorder = worker("A10", max_retry_count: 0) { raise "E" }
    recorder.perform_async([{ id: 1, payload: "y", score: 2 }])
    server = serve(recorder)
    eventually { recorder.metrics[:morgue_length] == 1 }
    server.stop
    recorder.perform_async([{ id: 1, payload: "x", score: 1, retry_count: 3, perform_in: now + 1000 }])
    expect(recorder.actions.morgue_queue_up([1])).to eq(1)
    expect(fetch(recorder, 1)).to include(payloads: [["x", 1.0], ["y", 2.0]], retry_count: -1, perform_in: be_within(1).of(now))
    expect(recorder.metrics[:morgue_length]).to eq(0)
  end

  it "LK-A-14: max_retry_count 3 means four runs", :core do
    counts = []
    recorder = worker("A14", max_retry_count: 3) { raise "always" }
    recorder.define_singleton_method(:retry_in) { |count| counts << count and 0.05 * (count + 1) }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    all = runs(recorder, 4)
    eventually { recorder.metrics[:morgue_length] == 1 }
    expect(all.map { |run| run.retry_counts["1"] }).to eq([-1, 0, 1, 2])
    expect(counts).to eq([0, 1, 2, 3])
    waits = all.each_cons(2).map { |a, b| b.started - a.ended }
    expect(waits).to match([be_between(0.04, 0.25), be_between(0.09, 0.3), be_between(0.14, 0.35)])
    expect(recorder.metrics).to include(length: 0, failed: 4, processed: 0)
  end

  it "LK-A-15: the default back-off", :core do
    plain = Module.new.extend(Seriatim::Worker)
    [15..44, 16..74, 31..118, 96..212, 271..416].each_with_index do |range, count|
      samples = Array.new(1000) { plain.retry_in(count) }
      expect(samples).to all(be_an(Integer).and(be_between(range.min, range.max)))
      expect(samples.map { |s| (s - range.min) / (count + 1) }.uniq.sort).to eq((0..29).to_a)
    end
  end

  it "LK-A-16: the lowest score dies, the rest go on", :core do
    told = Thread::Queue.new
    recorder = worker("A16", max_retry_count: 2) { raise "error" }
    recorder.define_singleton_method(:retries_exhausted) { |jobs| told << jobs }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: 1, payload: "v1", score: 0, retry_count: 1 }, { id: 1, payload: "v2", score: 1, retry_count: 1 }])
    server = serve(recorder)
    expect(Timeout.timeout(5) { told.pop }).to eq([{ id: "1", payloads: [["v1", 0.0]], error: "error" }])
    # the rest are due now, so they may run again at once, and fail into a back-off
    server.stop
    expect(recorder.queries.morgue_fetch([1])).to match([{ id: "1", payloads: [["v1", 0.0]], error: "error", updated_at: be_within(2).of(now) }])
    expect(fetch(recorder, 1)).to include(payloads: [["v2", 1.0]], error: "error")
    expect(told).to be_empty
  end

  it "LK-A-17: retries_exhausted is for the dead alone, and may raise" do
    recorder = worker("A17", max_retry_count: 1) { raise "x" }
    calls = Thread::Queue.new
    recorder.define_singleton_method(:retries_exhausted) { |jobs| (calls << jobs.size) and raise("hook") }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    eventually { recorder.metrics[:morgue_length] == 1 }
    eventually { log.include?("retries_exhausted raised RuntimeError: hook") }
    expect(Array.new(calls.size) { calls.pop }).to eq([1])
    recorder.perform_async([{ id: 2 }])
    runs(recorder, 4)
  end

  it "LK-A-18: an id's own outcome is its own", :core do
    recorder = worker("A18", batch_size: 10, shards_count: 1) do |_, batch|
      batch.fail(:a, RuntimeError.new("only a"))
      batch.done("b")
      raise "c" if batch.key?("c")
    end
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: "a" }, { id: "b" }, { id: "c" }])
    serve(recorder)
    runs(recorder)
    eventually { recorder.metrics[:length] == 2 }
    expect(recorder.metrics).to include(processed: 1, failed: 2)
    expect(fetch(recorder, "a")).to include(retry_count: 0, error: "only a")
    expect(fetch(recorder, "c")).to include(retry_count: 0, error: "c")
  end

  it "LK-A-19: stored errors pass through format, dump and load" do
    require "zlib"
    Seriatim.format_error = ->(error) { "#{error.message}\n#{"line\n" * 4000}" }
    Seriatim.dump_error = ->(text) { Zlib.deflate(text) }
    Seriatim.load_error = ->(bytes) { Zlib.inflate(bytes.b) }
    recorder = worker("A19") { raise "long" }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: 1 }, { id: 2, delay: 60 }])
    serve(recorder)
    record = eventually { fetch(recorder, 1)&.then { |r| r if r[:error] } }
    expect(record[:error]).to eq("long\n#{"line\n" * 4000}")
    expect(fetch(recorder, 2)).not_to have_key(:error)
  end

  it "parks or drops where the worker says so" do
    park = worker("Park", max_retry_count: 0, on_exhausted: :park) { raise "x" }
    drop = worker("Drop", max_retry_count: 0, on_exhausted: :drop) { raise "x" }
    [park, drop].each { |w| w.perform_async([{ id: 1 }]) }
    serve(park, drop)
    [park, drop].each { |w| eventually { w.metrics[:failed] == 1 } }
    eventually { park.queries.parked.map { |r| r[:id] } == ["1"] }
    expect(drop.metrics).to include(length: 0, morgue_length: 0)
    expect(park.actions.unpark([1])).to eq(1)
    runs(park, 2)
  end
end
