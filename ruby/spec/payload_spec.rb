# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "payloads" do
  native = Seriatim.module_eval { const_get(:Native) }

  describe "canonical JSON", :core do
    {
      nil => "null", true => "true", "" => '""', :sym => '"sym"', 1 => "1", 1.0 => "1", 1.5 => "1.5", 1e21 => "1e+21",
      -0.0 => "0", 2**63 - 1 => "9223372036854775807", -2**63 => "-9223372036854775808",
      { "b" => 1, a: [nil, false] } => '{"a":[null,false],"b":1}', "é\u0000\n" => "\"é\\u0000\\n\"",
      "é".encode("ISO-8859-1") => '"é"', "é".encode("UTF-16LE") => '"é"', "é".b => '"é"'
    }.each do |value, text|
      it("writes #{value.inspect} as #{text}") { expect(native.dump(value, "p")).to eq(text) }
    end

    cycle = []
    cycle << cycle
    {
      Float::NAN => /p: NaN/, 2**63 => /p: Integer must be from -2\^63 to 2\^63-1/, -2**64 => /p: Integer/,
      [Time.now] => /p\[0\]: Time cannot be written as JSON/, { 1 => 2 } => /Integer cannot be a key/, "\xFF" => /p: .*UTF-8/,
      { a: 1, "a" => 2 } => /p\.a: .*twice/, cycle => /contains itself/, Object.new => /p: Object cannot/, 1r => /p: Rational cannot/
    }.each do |value, message|
      it("refuses #{value.inspect[0, 40]}") { expect { native.dump(value, "p") }.to raise_error(Seriatim::Invalid, message) }
    end

    {
      "UTF-16LE that ends in the middle of a character" => "ab".encode("UTF-16LE").byteslice(0, 3), "a byte that Windows-1252 lacks" => "\xC3\x81".dup.force_encoding("Windows-1252"),
      "a lone surrogate" => "\xD8\x80".dup.force_encoding("UTF-16BE"), "an encoding that Ruby cannot convert" => "a+AOk-".dup.force_encoding("UTF-7")
    }.each do |name, text|
      it "refuses #{name}, whose bytes are also UTF-8" do
        expect { native.dump([text], "p") }.to raise_error(Seriatim::Invalid, "p[0]: a string must be valid UTF-8")
        expect { native.dump({ text => 1 }, "p") }.to raise_error(Seriatim::Invalid, "p: a key must be valid UTF-8")
      end
    end

    it "reads back what it wrote" do
      value = { "a" => [1, -2.5, nil, true, "é"], "b" => { "c" => [] }, "" => 2**63 - 1 }
      expect(native.load(native.dump(value, "p"))).to eq(value)
      expect(native.load('{"key":"text"}').first).to match([be_frozen, have_attributes(encoding: Encoding::UTF_8)])
    end

    it "says where it cannot read" do
      expect { native.load('{"a":}') }.to raise_error(Seriatim::Undecodable, /at byte/)
    end

    it "holds no memory when it is interrupted by errors" do
      GC.stress = true
      3.times do
        native.load(native.dump({ "a" => [1, "x" * 50, { "b" => 2**62 }] }, "p"))
        native.dump([[Object.new]], "p") rescue nil # rubocop:disable Style/RescueModifier
        native.load('[[1, "a",') rescue nil # rubocop:disable Style/RescueModifier
      end
    ensure
      GC.stress = false
    end
  end

  describe "R-CODEC-7: codecs" do
    def payload_of(recorder, payload)
      recorder.perform_async([{ id: 1, payload: payload }])
      serve(recorder)
      runs(recorder).first.payloads["1"].first
    end

    it "JSON by default; key order does not defeat folding" do
      recorder = worker
      recorder.perform_async([{ id: 1, payload: { a: 1, b: 2 } }, { id: 1, payload: { "b" => 2, "a" => 1 } }])
      serve(recorder)
      expect(runs(recorder).first.payloads["1"]).to eq([{ "a" => 1, "b" => 2 }])
    end

    it "Marshal where the worker names it" do
      payload = { num: 1, str: "str", time: Time.at(1), arr: [1, 2, 3] }
      expect(payload_of(worker(codec: [Marshal.method(:dump), Marshal.method(:load)]), payload)).to eq(payload)
    end

    it "the module's pair for workers that name none" do
      Seriatim.dump_payload = ->(payload) { payload.to_s.reverse }
      Seriatim.load_payload = ->(bytes) { bytes.reverse.to_i }
      expect(payload_of(worker, 123)).to eq(123)
    end
  end
end
