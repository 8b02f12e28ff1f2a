# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "failure" do
  def fetch(worker, id) = worker.queries.fetch([id]).first

  it "R-RETRY-9: takes an Integer from the default back-off", :core do
    expect(Module.new.extend(Seriatim::Worker).retry_in(3)).to be_an(Integer)
  end

  it "R-HOOK-2: calls retries_exhausted for the dead alone, and goes on when it raises" do
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

  it "logs a failure in one line of bounded length, and of many in a second only their count" do
    Seriatim.format_error = ->(error) { "#{error.message}\n#{"backtrace\n" * 2000}" }
    recorder = worker("Crowded", max_retry_count: 0, batch_size: 60) { raise "#{"x" * 3000}\nsecond line" }
    other = worker("Calm") { raise "one\ntwo" }
    recorder.perform_async(Array.new(300) { |id| { id: id } })
    server = serve(recorder, other)
    other.perform_async([{ id: 1 }])
    log = -> { @log.string.lines }
    counted = -> { log.call.sum { |line| line[/ n=(\d+) fail \d+ more failures in queue Crowded are not/, 1].to_i } }
    told = -> { log.call.grep(/ERROR .*q=Crowded .*dead RuntimeError: x/) }
    eventually { recorder.metrics[:morgue_length] == 300 && counted.call + told.call.size >= 300 }
    server.stop
    expect(counted.call + told.call.size).to eq(300)
    expect(log.call.grep(/ fail RuntimeError: x| dead x/)).to eq([])
    expect(told.call.size).to be_between(10, 10 * (counted.call.fdiv(10).ceil + 1)).and be < 300
    expect(told.call.map(&:size)).to all(be < 800)
    expect(told.call).to all(match(/xxx\.\.\. \([^()]*failure_spec\.rb:\d+.*\)$/))
    expect(log.call.grep(/q=Calm id=1 .* fail RuntimeError: one \(.*failure_spec\.rb:\d+.*\)$/)).not_to be_empty
    expect(log.call.grep(/backtrace|second line| two/)).to eq([])
  end

  it "logs how many dead ids the limits of the morgue removed" do
    mortal = worker("Mortal", shards_count: 1, max_retry_count: 0, morgue_max_count: 1) { raise "x" }
    mortal.perform_async(Array.new(3) { |id| { id: id } })
    server = serve(mortal)
    eventually { mortal.metrics[:morgue_removed] == 2 }
    server.stop
    removed = @log.string.lines.filter_map { |line| line[/INFO .* n=(\d) morgue removed \1 dead ids? from shard .*Mortal/, 1] }
    expect(removed.sum(&:to_i)).to eq(2)
  end

  it "logs the last failure of an id once, by what became of it, and a payload that cannot be read once" do
    workers = %i[bury park drop].map do |word|
      worker("Last#{word}", max_retry_count: 1, on_exhausted: word) { raise "boom" }.tap { |made| made.define_singleton_method(:retry_in) { |_| 0 } }
    end
    unreadable = worker("Unreadable", codec: [:to_json.to_proc, ->(_) { raise "no" }])
    [*workers, unreadable].each { |made| made.perform_async([{ id: 1 }]) }
    serve(*workers, unreadable)
    lines = -> { @log.string.lines.filter_map { |line| line[/(WARN|ERROR) .* q=(Last\w+|Unreadable) .*(fail|dead|parked|dropped) /] && "#{$1} #{$2} #{$3}" } }
    eventually { lines.call.size >= 7 }
    sleep 0.2
    expect(lines.call.sort).to eq(["ERROR Lastbury dead", "ERROR Lastdrop dropped", "ERROR Lastpark parked", "ERROR Unreadable dead",
                                   "WARN Lastbury fail", "WARN Lastdrop fail", "WARN Lastpark fail"])
  end

  it "R-RETRY-10: takes an Exception or a text in fail, and an id as it was pushed", :core do
    recorder = worker("A18", batch_size: 10, shards_count: 1) do |_, batch|
      batch.fail(:a, RuntimeError.new("an error"))
      batch.fail(1, :text)
      batch.fail("\u00fc".b, "its bytes")
    end
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: :a }, { id: 1 }, { id: "\u00fc" }])
    serve(recorder)
    runs(recorder)
    eventually { recorder.metrics[:retries] == 3 }
    expect([:a, 1, "\u00fc"].map { |id| fetch(recorder, id)[:error] }).to eq(["an error", "text", "its bytes"])
  end

  it "keeps the class, the message and ten lines of the backtrace of an exception, at most 4 KiB between characters" do
    Seriatim.reset_settings
    deep = ->(depth) { depth.zero? ? raise(ArgumentError, "one\ntwo") : deep.call(depth - 1) }
    error = (deep.call(20) rescue $!) # rubocop:disable Style/RescueModifier, Style/SpecialGlobalVars
    expect(Seriatim.format_error.call(error).lines(chomp: true)).to match(["ArgumentError: one", "two", *[/failure_spec\.rb:\d+:in /] * 10])
    expect(Seriatim.format_error.call(RuntimeError.new("no backtrace"))).to eq("RuntimeError: no backtrace")
    expect(Seriatim.format_error.call(RuntimeError.new("x#{"\u00fc" * 5000}"))).to eq("RuntimeError: x#{"\u00fc" * 2040}")
    Seriatim.redis = REDIS.url
    Seriatim.logger = nil
  end

  it "R-RETRY-11: passes stored errors through format_error, dump_error and load_error" do
    require "zlib"
    Seriatim.format_error = ->(error) { "#{error.message}\n#{"line\n" * 4000}" }
    Seriatim.dump_error = ->(text) { Zlib.deflate(text) }
    Seriatim.load_error = ->(bytes) { Zlib.inflate(bytes.b) }
    seen = []
    recorder = worker("A19") { |_, batch| raise "long" if seen << batch.error(1) }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: 1 }, { id: 2, delay: 60 }])
    serve(recorder)
    record = eventually { fetch(recorder, 1)&.then { |r| r if r[:error] } }
    expect(record[:error]).to eq("long\n#{"line\n" * 4000}")
    expect(fetch(recorder, 2)).not_to have_key(:error)
    recorder.actions.perform_all_failed_jobs_now
    eventually { seen.size == 2 }
    expect(seen).to eq([nil, "long\n#{"line\n" * 4000}"])
  end

  it "cuts an error's text at 64 KiB between characters before dump_error, so that load_error can read what is stored" do
    require "zlib"
    texts = { "hex" => SecureRandom.hex(200_000), "umlauts" => "x#{"\u00fc" * 200_000}" }
    Seriatim.dump_error = ->(text) { Zlib.deflate(text) }
    Seriatim.load_error = ->(bytes) { Zlib.inflate(bytes.b).force_encoding("UTF-8") }
    recorder = worker("Zlib", batch_size: 2, shards_count: 1) { |_, batch| texts.each { |id, text| batch.fail(id, text) } }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async(texts.keys.map { |id| { id: id } })
    serve(recorder)
    eventually { recorder.metrics[:retries] == 2 }
    expect(fetch(recorder, "hex")[:error]).to eq(texts["hex"][0, 65_536])
    expect(fetch(recorder, "umlauts")[:error]).to eq("x#{"\u00fc" * 32_767}")
  end

  it "dumps a short text that says why, where dump_error raises or gives more than 64 KiB" do
    Seriatim.dump_error = lambda do |text|
      raise "cannot dump" if text.start_with?("raise") && !text.include?("\n(")

      "<#{text.start_with?("grow") && !text.include?("\n(") ? "x" * 70_000 : text}>"
    end
    recorder = worker("Undumped", batch_size: 2, shards_count: 1) { |_, batch| batch.ids.each { |id| batch.fail(id, "#{id} it\nsecond line") } }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: "raise" }, { id: "grow" }])
    serve(recorder)
    eventually { recorder.metrics[:retries] == 2 }
    expect(fetch(recorder, "raise")[:error]).to match(/\A<raise it\n\(dump_error raised RuntimeError: cannot dump .*; only the first line of this error is stored\)>\z/)
    expect(fetch(recorder, "grow")[:error]).to match(/\A<grow it\n\(dump_error gave 70002 bytes, of which 65536 may be stored; only the first line of this error is stored\)>\z/)
    expect(log).to include("dump_error gave 70002 bytes")
  end

  it "dumps the reason why a payload cannot be read" do
    Seriatim.dump_error = ->(text) { "<#{text}>" }
    recorder = worker("Unread", shards_count: 1)
    worker("Unread", codec: :raw, shards_count: 1).perform_async([{ id: 1, payload: "{" }])
    serve(recorder)
    dead = eventually { recorder.queries.morgue_fetch([1]).first }
    expect(dead[:error]).to match(/\A<undecodable payload: .*>\z/m)
  end

  it "dumps the error of ids that are failed where a hook ended its thread" do
    Seriatim.dump_error = ->(text) { "<#{text}>" }
    recorder = worker("Ended", shards_count: 1) { raise "x" }
    recorder.define_singleton_method(:retry_in) { |_| Thread.exit }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    record = eventually { fetch(recorder, 1)&.then { |r| r if r[:error] } }
    expect(record[:error]).to eq("<#{Seriatim::ThreadEnded.new.message}>")
  end
end
