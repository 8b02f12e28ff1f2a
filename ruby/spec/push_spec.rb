# frozen_string_literal: true

require_relative "spec_helper"
require "open3"

RSpec.describe "push" do
  let(:recorder) { worker("Orders") }

  def record(id, of: recorder) = of.queries.fetch([id]).first

  it "R-ORDER-3: runs many pushes of one id in order and never side by side", limit: 240 do
    recorder.serial_shards = false
    2.times { serve(recorder, threads: 4) }
    ids = %w[a b c d e]
    (1..400).each { |i| recorder.perform_async(ids.map { |id| { id: id, payload: i } }) }
    drained(recorder, seconds: 180)
    all = Array.new(recorder.runs.size) { recorder.runs.pop }
    ids.each do |id|
      mine = all.select { |run| run.payloads.key?(id) }.sort_by(&:started)
      expect(mine.flat_map { |run| run.payloads[id] }).to eq((1..400).to_a)
      expect(mine.each_cons(2)).to all(satisfy { |a, b| a.ended <= b.started })
    end
  end

  describe "F11 what is refused before anything is written", :core do
    {
      "no Array" => [{ id: 1 }, /jobs must be an Array of Hashes, not a Hash/],
      "no Hash" => [[1], /jobs\[0\]: must be a Hash, not a Integer/],
      "an unknown key" => [[{ id: 1 }, { id: 1, paylaod: 1 }], /jobs\[1\]: unknown key :paylaod; known are id, payload/],
      "a key twice" => [[{ :id => 1, "id" => 2 }], /jobs\[0\]: id is given twice/],
      "a nil id" => [[{ id: nil }], /jobs\[0\]: id must be a String, Symbol or Integer, not nil/],
      "a Float id" => [[{ id: 1 }, { id: 1.5 }], /jobs\[1\]: id must be/],
      "an empty id" => [[{ id: "" }], "jobs[0]: id is empty"],
      "two times" => [[{ id: 1, perform_in: 1, delay: 1 }], /jobs\[0\]: perform_in and delay exclude each other/],
      "a text time" => [[{ id: 1, perform_at: "soon" }], /jobs\[0\]: perform_at must be a Time or a number/],
      "a Time delay" => [[{ id: 1, delay: Time.now }], /jobs\[0\]: delay must be a number of seconds/],
      "a text score" => [[{ id: 1, score: "1" }], /jobs\[0\]: score must be a number/],
      "a NaN score" => [[{ id: 1, score: Float::NAN }], /score/],
      "an infinite time" => [[{ id: 1, perform_in: Float::INFINITY }], /jobs\[0\]/],
      "an unknown on_waiting" => [[{ id: 1, on_waiting: :later_on }], /jobs\[0\]: on_waiting must be one of keep/],
      "on_waiting: false" => [[{ id: 1, on_waiting: false }], "jobs[0]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not false (FalseClass)"],
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

  it "takes true or false for handle, and nothing else", :core do
    [nil, "true", :false, 1].each do |flag| # rubocop:disable Lint/BooleanSymbol
      expect { recorder.perform_async([{ id: 1 }], handle: flag) }.to raise_error(Seriatim::Invalid, /\Ahandle must be true or false, not #{Regexp.escape(flag.inspect)}/)
    end
    expect(recorder.metrics[:length]).to eq(0)
    expect([true, false].map { |flag| recorder.perform_async([{ id: 1 }], handle: flag).handles.size }).to eq([1, 0])
  end

  it "takes String keys, Symbol ids and every kind of number", :core do
    recorder.perform_async([{ "id" => :a, "payload" => 1, "delay" => 60r }, { id: 2, perform_at: Time.now + 60, score: 1/3r }])
    expect(recorder.queries.range_by_id("-", "+").map { |r| [r[:id], r[:perform_in].round - now.round] }).to match([["2", be_within(20).of(60)], ["a", be_within(20).of(60)]])
  end

  it "takes an ActiveSupport::Duration as a delay", :core do
    skip "ActiveSupport is not installed" unless Gem::Specification.find_all_by_name("activesupport").any?
    # in a process of its own, because ActiveSupport changes the classes of this one
    program = <<~RUBY
      require "logger"
      require "active_support"
      require "active_support/core_ext/numeric/time"
      require "seriatim"
      Seriatim.redis = #{REDIS.url.inspect}
      worker = Module.new { extend Seriatim::Worker; self.queue_name = "Recorder" }
      worker.perform_async([{ id: 1, delay: 90.seconds }, { id: 2, delay: 1.5.minutes }])
    RUBY
    output, status = Open3.capture2e(RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), "-e", program)
    expect([output, status.exitstatus]).to eq(["", 0])
    expect(recorder.queries.fetch([1, 2]).map { |r| r[:perform_in] - now }).to all(be_within(20).of(90))
  end

  it "lets a worker override perform_async and call super" do
    recorder.define_singleton_method(:perform_async) { |jobs| super(jobs.map { |job| { id: job[:id], payload: job, score: job[:version] } }) }
    recorder.perform_async([{ id: 1, version: 7 }])
    expect(record("1")[:payloads]).to eq([[{ "id" => 1, "version" => 7 }, 7.0]])
  end
end
