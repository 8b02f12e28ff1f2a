# frozen_string_literal: true

require_relative "spec_helper"
require "date"

# Jobs are read natively; of rare values Ruby has the rules. ruby/spec/push_spec.rb: what is refused.
RSpec.describe "the reader of jobs" do
  let(:recorder) { worker("Reader") }

  def record(id) = recorder.queries.fetch([id]).first
  def refused(jobs, message) = expect { recorder.perform_async(jobs) }.to(raise_error(Seriatim::Invalid, message))

  it "leaves the caller's Hashes alone, frozen or not" do
    job = { "id" => :a, payload: { b: [1, 2.5, nil, true, "x", :y] }.freeze, "score" => 2 }.freeze
    recorder.perform_async([job, { id: 2 }].freeze)
    expect(record("a")[:payloads]).to eq([[{ "b" => [1, 2.5, nil, true, "x", "y"] }, 2.0]])
    expect(record("2")[:payloads].map(&:first)).to eq([""])
  end

  it "takes ids of every kind" do
    ids = ["text", :symbol, 0, -7, 2**62, 2**70, -(2**64), "\u00e9", "\xFF".b]
    recorder.perform_async(ids.map { |id| { id: id } })
    expect(recorder.queries.range_by_id("-", "+", limit: 20).map { |found| found[:id].b }).to match_array(ids.map { |id| id.to_s.b })
  end

  it "takes numbers and times of every kind" do
    soon = Time.now + 3600
    values = [soon, soon.to_f, soon.to_i, soon.to_r, soon.to_datetime]
    recorder.perform_async(values.each_with_index.map { |value, i| { id: i, (i.odd? ? :perform_at : "perform_in") => value, score: [1, 1.0, 1r, 2**80, nil][i] } })
    expect(Array.new(5) { |i| record(i.to_s)[:perform_in] }).to all(be_within(1).of(soon.to_f))
    expect(record("3")[:payloads].first.last).to eq((2**80).to_f)
    recorder.perform_async([{ id: "nils", score: nil, perform_in: nil, delay: nil, on_waiting: nil, context: nil, retry_count: nil, payload: nil }])
    expect(record("nils")).to include(payloads: [[nil, be_a(Float)]], retry_count: -1)
  end

  it "names the job and the field of what it refuses" do
    refused([{ id: 1 }, { id: 2, delay: false }], "jobs[1]: delay must be a number of seconds, not false (FalseClass)")
    refused([{ id: 1, score: 1i }], /jobs\[0\]: score must be a number, not \(0\+1i\)/)
    refused([{ id: 1, perform_at: 1, perform_in: 2 }], "jobs[0]: perform_in and perform_at exclude each other")
    refused([{ id: 1, retry_count: -2 }], /jobs\[0\]: retry_count must be an Integer of -1 or more/)
    refused([{ id: 1, retry_count: 2**70 }], /jobs\[0\]: retry_count must be from -1 to 1000000/)
    refused([{ payload: 1 }], "jobs[0]: id is missing")
    refused([{ id: 1, nil => 1 }], /jobs\[0\]: unknown key nil; known are id, payload, score/)
    refused([{ id: 1, payload: [1, { "a b" => Float::NAN }] }], /jobs\[0\]\.payload\[1\]\["a b"\]/)
    refused([{ id: 1, payload: 2**64 }], "jobs[0].payload: Integer must be from -2^63 to 2^63-1")
    refused(nil, "jobs must be an Array of Hashes, not a NilClass")
    expect(recorder.metrics[:length]).to eq(0)
  end

  it "reads safely while user code changes the jobs" do
    jobs = Array.new(50) { |id| { id: "id#{id}".dup } }
    number = Class.new(Numeric) { define_method(:to_f) { jobs.each { |job| job[:id].replace("changed" * 100) } and jobs.clear and 1.0 } }.new
    jobs[1][:score] = number
    expect(recorder.perform_async(jobs).added).to eq(2)
    expect(recorder.queries.range_by_id("-", "+").map { |found| found[:id] }).to include("id0")
  end

  it "leaves a connection after a refusal that takes the next push" do
    Seriatim.client_pool_size = 1
    3.times { refused([*Array.new(100) { |id| { id: id } }, 5], "jobs[100]: must be a Hash, not a Integer") }
    expect(recorder.perform_async([{ id: 1 }]).added).to eq(1)
    expect(recorder.metrics[:length]).to eq(1)
  end

  it "passes each payload to a codec of the worker's own" do
    recorder.codec = [->(payload) { "<#{payload}>" }, ->(bytes) { bytes[1..-2] }]
    recorder.perform_async([{ "id" => 1, "payload" => "a" }, { id: 2 }])
    expect([record("1"), record("2")].map { |found| found[:payloads].first.first }).to eq(["a", ""])
    recorder.codec = :raw
    recorder.perform_async([{ id: 3, payload: "\xFF\x00".b }])
    expect(record("3")[:payloads].first.first).to eq("\xFF\x00".b)
    refused([{ id: 4, payload: 5 }], "jobs[0].payload: must be a String of bytes, not a Integer")
    recorder.codec = nil
    recorder.perform_async([{ id: 5, payload: [5] }])
    expect(record("5")[:payloads].first.first).to eq([5])
  end

  it "pushes many thousands in one call" do
    result = recorder.perform_async(Array.new(25_000) { |id| { id: id, payload: { n: id } } })
    expect(result).to have_attributes(added: 25_000, folded: 0, refused: 0)
    expect(record("24999")[:payloads].first.first).to eq("n" => 24_999)
    again = recorder.perform_async(Array.new(3) { |id| { id: id, on_waiting: "reject" } })
    expect(again).to have_attributes(added: 0, refused: 3, refused_at: [0, 1, 2])
  end
end
