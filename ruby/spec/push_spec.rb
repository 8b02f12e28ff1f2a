# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "push" do
  let(:recorder) { worker("Orders") }

  def record(id, of: recorder) = of.queries.fetch([id]).first

  it "LK-A-1: is run once, then gone", :core do
    result = recorder.perform_async([{ id: 1, payload: "v1" }])
    expect(result.to_h).to eq(added: 1, folded: 0, refused: 0, refused_at: [])
    serve(recorder)
    expect(runs(recorder).first.payloads).to eq("1" => ["v1"])
    drained(recorder)
    expect(recorder.metrics).to include(length: 0, busy: 0, processed: 1, failed: 0)
    expect(recorder.queries.fetch(["1"])).to eq([])
    expect(recorder.runs).to be_empty
  end

  it "LK-A-2: the payload, the score and the time have defaults", :core do
    recorder.perform_async([{ id: "x" }])
    expect(record("x")).to match(id: "x", retry_count: -1, perform_in: be_within(1).of(now), payloads: [["", be_within(1).of(now)]])
  end

  it "LK-A-3: the id is mandatory and nothing is written without it", :core do
    expect { recorder.perform_async([{ id: "a" }, { payload: 1 }]) }.to raise_error(Seriatim::Invalid, /jobs\[1\]: id is missing/)
    expect(REDIS.call("DBSIZE")).to eq("0")
  end

  it "LK-A-4: the payloads of an id come by score" do
    recorder.perform_async([[3, "c"], [1, "a"], [2, "b"]].map { |score, payload| { id: "o", score: score, payload: payload } })
    serve(recorder)
    expect(runs(recorder).first.payloads).to eq("o" => %w[a b c])
  end

  it "LK-A-5: equal scores come in the order of arrival" do
    recorder.perform_async([{ id: "one", score: 1, payload: "b" }, { id: "one", score: 1, payload: "a" }])
    %w[b a].each { |payload| recorder.perform_async([{ id: "two", score: 1, payload: payload }]) }
    expect(%w[one two].map { |id| record(id)[:payloads].map(&:first) }).to eq([%w[b a], %w[b a]])
  end

  it "LK-A-6: one id, many pushes, many threads: in order, never overlapping", limit: 90 do
    recorder.serial_shards = false
    2.times { serve(recorder, threads: 4) }
    ids = %w[a b c d e]
    (1..400).each { |i| recorder.perform_async(ids.map { |id| { id: id, payload: i } }) }
    drained(recorder, seconds: 60)
    all = Array.new(recorder.runs.size) { recorder.runs.pop }
    ids.each do |id|
      mine = all.select { |run| run.payloads.key?(id) }.sort_by(&:started)
      expect(mine.flat_map { |run| run.payloads[id] }).to eq((1..400).to_a)
      expect(mine.each_cons(2)).to all(satisfy { |a, b| a.ended <= b.started })
    end
  end

  it "LK-A-7: a push onto a waiting id unites payloads, keeping its time and retry_count", :core do
    time = (now + 600).round
    recorder.perform_async([{ id: "1", payload: "v1", score: 1, retry_count: 0, perform_in: time },
                            { id: "1", payload: "v2", score: 2, retry_count: 0, perform_in: time }])
    result = recorder.perform_async([{ id: "1", payload: "v2", score: 3, perform_in: time + 2 },
                                     { id: "1", payload: "v3", score: 4, perform_in: time + 2 }])
    expect(result).to have_attributes(added: 0, folded: 2)
    expect(record("1")).to include(payloads: [["v1", 1.0], ["v2", 2.0], ["v3", 4.0]], retry_count: 0, perform_in: time)
  end

  it "LK-A-8: equal payloads keep the smaller score" do
    [2, 1, 5].each { |score| recorder.perform_async([{ id: "1", payload: "v", score: score }]) }
    expect(record("1")[:payloads]).to eq([["v", 1.0]])
  end

  it "LK-A-11: on_waiting earlier brings an id forward, without it the time stays" do
    recorder.perform_async([{ id: "1", perform_in: Time.now + 3600 }])
    recorder.perform_async([{ id: "1", perform_in: now }])
    expect(record("1")[:perform_in]).to be > now + 3000
    recorder.perform_async([{ id: "1", perform_in: now, on_waiting: :earlier }])
    expect(record("1")[:perform_in]).to be_within(1).of(now)
  end

  it "counts what on_waiting reject turns away and says where" do
    recorder.perform_async([{ id: "a", delay: 60 }])
    result = recorder.perform_async([{ id: "b" }, { id: "a", payload: 2, on_waiting: "reject" }])
    expect(result.to_h).to eq(added: 1, folded: 0, refused: 1, refused_at: [1])
  end

  it "LK-A-12: a delayed job comes in time, one far off does not come" do
    recorder.perform_async([{ id: "soon", perform_in: now + 1 }, { id: "far", perform_in: Time.now + (10 * 365 * 86_400) },
                            { id: "past", perform_in: -1 }])
    start = now
    serve(recorder)
    past, soon = runs(recorder, 2)
    expect([past, soon].map { |run| run.payloads.keys }).to eq([["past"], ["soon"]])
    expect(soon.started - start).to be_between(0.9, 1.3)
    expect(record("far")).to include(id: "far")
  end

  it "LK-A-12: milliseconds are refused, and the message says so" do
    expect { recorder.perform_async([{ id: 1, perform_in: (now * 1000).to_i }]) }.to raise_error(Seriatim::Invalid, /millisecond/)
  end

  it "LK-A-43: names are data", :core do
    names = ["Q", "Q:processing", "Q:morgue", "{Q}", "Q\n}{\0 é"]
    ids = ["a:b", "{a}", " ", "a\0b", "é", "x" * 1024]
    queues = names.map { |name| worker(name, shards_count: 2) }
    queues.each { |queue| queue.perform_async(ids.map { |id| { id: id, payload: queue.queue_name } }) }
    queues.each do |queue|
      expect(queue.queries.range_by_id("-", "+", limit: 100).to_h { |r| [r[:id], r[:payloads].map(&:first)] })
        .to eq(ids.to_h { |id| [id, [queue.queue_name]] })
    end
    expect { recorder.perform_async([{ id: "x" * 1025 }]) }.to raise_error(Seriatim::Invalid, /id/)
  end

  describe "what is refused before anything is written", :core do
    {
      "no Array" => [{ id: 1 }, /jobs must be an Array of Hashes, not a Hash/],
      "no Hash" => [[1], /jobs\[0\]: must be a Hash, not a Integer/],
      "an unknown key" => [[{ id: 1 }, { id: 1, paylaod: 1 }], /jobs\[1\]: unknown key :paylaod; known are id, payload/],
      "a key twice" => [[{ :id => 1, "id" => 2 }], /jobs\[0\]: id is given twice/],
      "a nil id" => [[{ id: nil }], /jobs\[0\]: id must be a String, Symbol or Integer, not nil/],
      "a Float id" => [[{ id: 1 }, { id: 1.5 }], /jobs\[1\]: id must be/],
      "an empty id" => [[{ id: "" }], /id/],
      "two times" => [[{ id: 1, perform_in: 1, delay: 1 }], /jobs\[0\]: perform_in and delay exclude each other/],
      "a text time" => [[{ id: 1, perform_at: "soon" }], /jobs\[0\]: perform_at must be a Time or a number/],
      "a Time delay" => [[{ id: 1, delay: Time.now }], /jobs\[0\]: delay must be a number of seconds/],
      "a text score" => [[{ id: 1, score: "1" }], /jobs\[0\]: score must be a number/],
      "a NaN score" => [[{ id: 1, score: Float::NAN }], /score/],
      "an infinite time" => [[{ id: 1, perform_in: Float::INFINITY }], /jobs\[0\]/],
      "an unknown on_waiting" => [[{ id: 1, on_waiting: :later_on }], /jobs\[0\]: on_waiting must be one of keep/],
      "a list context" => [[{ id: 1, context: [1] }], /jobs\[0\]: context must be a Hash/],
      "a number in a context" => [[{ id: 1, context: { tenant: 7 } }], /jobs\[0\]\.context\[:tenant\]: must be a String/],
      "a fraction as retry_count" => [[{ id: 1, retry_count: 0.5 }], /jobs\[0\]: retry_count must be/],
      "a Time in a payload" => [[{ id: 1 }, { id: 2, payload: { items: [{ at: Time.now }] } }], /jobs\[1\]\.payload\.items\[0\]\.at: Time cannot be/]
    }.each do |name, (jobs, message)|
      it name do
        expect { recorder.perform_async(jobs) }.to raise_error(Seriatim::Invalid, message)
        expect(recorder.metrics[:length]).to eq(0)
      end
    end
  end

  it "takes String keys, Symbol ids and every kind of number", :core do
    recorder.perform_async([{ "id" => :a, "payload" => 1, "delay" => 60r }, { id: 2, perform_at: Time.now + 60, score: 1/3r }])
    expect(recorder.queries.range_by_id("-", "+").map { |r| [r[:id], r[:perform_in].round - now.round] }).to match([["2", be_within(1).of(60)], ["a", be_within(1).of(60)]])
  end

  it "lets a worker override perform_async and call super" do
    recorder.define_singleton_method(:perform_async) { |jobs| super(jobs.map { |job| { id: job[:id], payload: job, score: job[:version] } }) }
    recorder.perform_async([{ id: 1, version: 7 }])
    expect(record("1")[:payloads]).to eq([[{ "id" => 1, "version" => 7 }, 7.0]])
  end

  it "pushes nothing for an empty list" do
    expect(recorder.perform_async([]).to_h).to eq(added: 0, folded: 0, refused: 0, refused_at: [])
  end
end
