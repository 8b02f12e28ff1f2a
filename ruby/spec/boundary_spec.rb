# frozen_string_literal: true

require_relative "spec_helper"

# F9, F32: whatever way user code takes to leave, it is the failure of that job alone.
RSpec.describe "the error boundary" do
  leave = {
    "a StandardError" => [-> { raise "plain" }, "plain"],
    "an Exception" => [-> { raise Exception, "bare" }, "bare"], # rubocop:disable Lint/RaiseException
    "NotImplementedError" => [-> { raise NotImplementedError, "todo" }, "todo"],
    "NoMemoryError" => [-> { raise NoMemoryError, "memory" }, "memory"],
    "SystemStackError" => [-> { deep = ->(d) { d.call(d) }; deep.call(deep) }, /stack/],
    "a load error" => [-> { require "no/such/file" }, /no\/such\/file/],
    "a syntax error" => [-> { eval("1 +") }, /syntax|unexpected/], # rubocop:disable Security/Eval
    "exit" => [-> { exit 3 }, "exit"],
    "abort" => [-> { $stderr = StringIO.new; begin; abort("aborted"); ensure; $stderr = STDERR; end }, "aborted"],
    "Interrupt" => [-> { raise Interrupt }, /Interrupt|^$/],
    "SignalException" => [-> { raise SignalException, "TERM" }, /TERM/],
    "throw" => [-> { throw :nowhere }, /uncaught throw/],
    "the end of its thread" => [-> { Thread.current.kill }, /ended its thread/],
    "Thread.exit" => [-> { Thread.exit }, /ended its thread/],
    "a raise into its own thread" => [-> { Thread.current.raise("async"); sleep }, "async"],
    "a timeout" => [-> { Timeout.timeout(0.01) { sleep } }, /expired/],
    "an error without a message" => [-> { raise Class.new(StandardError) { def message = raise("no") } }, /./],
    "a nil error" => [-> { raise Class.new(StandardError) { def message = nil } }, /./],
    "a binary message" => [-> { raise "\xFF\xFE".b }, /./n]
  }

  leave.each do |name, (code, message)|
    it "counts #{name}" do
      recorder = worker("Leave", shards_count: 1) { |payloads, _| code.call if payloads.key?("bad") }
      recorder.define_singleton_method(:retry_in) { |_| 60 }
      server = serve(recorder, threads: 1)
      2.times do
        recorder.perform_async([{ id: "bad" }])
        runs(recorder)
        record = eventually { recorder.queries.fetch(["bad"]).first&.then { |r| r if r[:error] } }
        expect(record[:error]).to match(message.is_a?(Regexp) ? message : /\A#{message}/)
        expect(record[:retry_count]).to eq(0)
        recorder.actions.delete(["bad"])
      end
      recorder.perform_async([{ id: "good" }])
      expect(runs(recorder).first.payloads).to eq("good" => [""])
      expect(server.stop(2)).to be(true)
      expect(recorder.metrics).to include(processed: 1, failed: 2, busy: 0)
    end
  end

  {
    "retry_in raising" => ->(w) { w.define_singleton_method(:retry_in) { |_| raise "hook" } },
    "retry_in giving NaN" => ->(w) { w.define_singleton_method(:retry_in) { |_| Float::NAN } },
    "retry_in giving nil" => ->(w) { w.define_singleton_method(:retry_in) { |_| nil } },
    "retry_in giving a text" => ->(w) { w.define_singleton_method(:retry_in) { |_| "soon" } },
    "retry_in giving infinity" => ->(w) { w.define_singleton_method(:retry_in) { |_| Float::INFINITY } },
    "retry_in ending its thread" => ->(w) { w.define_singleton_method(:retry_in) { |_| Thread.exit } },
    "format_error raising" => ->(_) { Seriatim.format_error = ->(_) { raise "hook" } },
    "format_error giving nil" => ->(_) { Seriatim.format_error = ->(_) {} },
    "dump_error raising" => ->(_) { Seriatim.dump_error = ->(_) { raise "hook" } },
    "a middleware raising" => ->(_) { Seriatim.server_middlewares << ->(_, _) { raise "middleware" } }
  }.each do |name, spoil|
    it "survives #{name}" do
      recorder = worker("Hooks", batch_size: 5, shards_count: 1) { raise "x" }
      spoil.call(recorder)
      recorder.perform_async([{ id: 1 }, { id: 2 }])
      server = serve(recorder, threads: 1)
      eventually { recorder.metrics.values_at(:failed, :retries) == [2, 2] }
      expect(recorder.queries.fetch([1, 2]).map { |r| r[:retry_count] }).to eq([0, 0])
      expect(server.stop(2)).to be(true)
    end
  end

  it "takes a negative retry_in as now" do
    recorder = worker("Hooks", max_retry_count: 2) { raise "x" }
    recorder.define_singleton_method(:retry_in) { |_| -5 }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    runs(recorder, 3, seconds: 2)
  end

  it "hands back what still runs when the time is up, its retry_count unchanged" do
    recorder = worker("Slow") { sleep 30 }
    recorder.perform_async([{ id: 1 }])
    server = serve(recorder)
    eventually { recorder.metrics[:busy] == 1 }
    expect(server.stop(0.3)).to be(false)
    expect(eventually { recorder.queries.fetch([1]).first }).to include(retry_count: -1)
  end

  it "gives fences that rise, scores, contexts and the retry count" do
    seen = Thread::Queue.new
    recorder = worker("Batch") { |_, batch| seen << [batch.fence(1), batch.scores(1), batch.contexts("1"), batch.retry_count(:"1"), batch.to_a] }
    serve(recorder)
    2.times { |i| recorder.perform_async([{ id: 1, payload: i, score: 5, context: { tenant: "t#{i}" } }]) and runs(recorder) }
    first, second = seen.pop, seen.pop
    expect(second[0]).to be > first[0]
    expect(first[1..]).to eq([[5.0], [{ "tenant" => "t0" }], -1, [["1", [0]]]])
  end

  it "refuses an outcome for an id that is not in the batch" do
    recorder = worker("Batch") { |_, batch| batch.fail("other", "x") }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    eventually { recorder.queries.fetch([1]).first&.dig(:error)&.include?('no id "other"') }
  end
end
