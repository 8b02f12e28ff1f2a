# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../../spec/support/figures"

# Whatever way user code takes to leave, it is the failure of that job alone.
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
    "a throw past the server" => [-> { throw Thread.current }, /uncaught throw/],
    "a break out of a proc" => [-> { proc { break }.call }, /break from proc-closure/],
    "the end of a fiber's thread" => [-> { Fiber.new { Thread.exit }.resume }, /ended its thread/],
    "an error whose message exits" => [-> { raise Class.new(StandardError) { def message = exit } }, /./],
    "an error that cannot be shown" => [-> { raise Class.new(Exception) { def message = raise(Exception); def inspect = raise(Exception) } }, /./],
    "a nil error" => [-> { raise Class.new(StandardError) { def message = nil } }, /./],
    "a binary message" => [-> { raise "\xFF\xFE".b }, /./n]
  }

  leave.each do |name, (code, message)|
    it "F9 counts #{name}" do
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
      expect(server.stop(30)).to be(true)
      expect(recorder.metrics).to include(processed: 1, failed: 2, busy: 0)
    end
  end

  # One after another on one thread, so that each finds the delivery of the one before in the same place.
  it "F9 counts each of them, too, where nothing but perform is called" do
    plain = plain_worker("Leave", shards_count: 1) { |payloads| leave.fetch(payloads.keys.first).first.call unless payloads.key?("good") }
    plain.define_singleton_method(:retry_in) { |_| 60 }
    leave.each_key { |name| plain.perform_async([{ id: "good" }, { id: name }]) }
    server = serve(plain, threads: 1)
    eventually { plain.metrics[:retries] == leave.size && plain.metrics.values_at(:busy, :fresh).sum.zero? }
    leave.each do |name, (_, message)|
      expect(plain.queries.fetch([name]).first).to include(retry_count: 0, error: message.is_a?(Regexp) ? match(message) : start_with(message)), name
    end
    expect(server.stop(30)).to be(true)
    expect(plain.metrics).to include(failed: leave.size, busy: 0)
  end

  it "F9 leaving perform in each of these ways again and again harms no neighbour", limit: 600 do
    times = Figures.count(100, 1000)
    recorder = worker("Leave", max_retry_count: times - 1) { |payloads, _| leave.fetch(payloads.values.first.first).first.call if payloads.keys.first.start_with?("bad") }
    recorder.define_singleton_method(:retry_in) { |_| 0 }
    recorder.perform_async(leave.keys.map { |name| { id: "bad #{name}", payload: name } })
    server = serve(recorder, threads: 5)
    (1..10).each { |batch| recorder.perform_async(Array.new(30) { |i| { id: "good #{batch} #{i}" } }) && sleep(0.05) }
    eventually(400) { recorder.metrics.values_at(:morgue_length, :length, :busy) == [leave.size, 0, 0] }

    expect(recorder.metrics).to include(processed: 300, failed: leave.size * times, refused: 0)
    begun = runs(recorder, recorder.runs.size).flat_map { |run| run.payloads.keys }.tally
    expect(begun.select { |id, _| id.start_with?("good") }.values).to eq([1] * 300)
    expect(begun.select { |id, _| id.start_with?("bad") }.values).to eq([times] * leave.size)
    dead = recorder.queries.morgue_fetch(leave.keys.map { |name| "bad #{name}" }).to_h { |record| [record[:id][4..], record[:error]] }
    leave.each { |name, (_, message)| expect(dead[name]).to match(message), name }
    expect(server.stop(30)).to be(true)
  end

  {
    "retry_in raising" => ->(w) { w.define_singleton_method(:retry_in) { |_| raise "hook" } },
    "retry_in giving NaN" => ->(w) { w.define_singleton_method(:retry_in) { |_| Float::NAN } },
    "retry_in giving nil" => ->(w) { w.define_singleton_method(:retry_in) { |_| nil } },
    "retry_in giving a text" => ->(w) { w.define_singleton_method(:retry_in) { |_| "soon" } },
    "retry_in giving infinity" => ->(w) { w.define_singleton_method(:retry_in) { |_| Float::INFINITY } },
    "retry_in giving minus infinity" => ->(w) { w.define_singleton_method(:retry_in) { |_| -Float::INFINITY } },
    "retry_in giving 10**400" => ->(w) { w.define_singleton_method(:retry_in) { |_| 10**400 } },
    "retry_in giving a complex number" => ->(w) { w.define_singleton_method(:retry_in) { |_| Complex(1, 1) } },
    "retry_in giving what raises as it is read" => ->(w) { w.define_singleton_method(:retry_in) { |_| Class.new(Numeric) { def to_f = raise(Exception); def inspect = raise(Exception) }.new } },
    "retry_in exiting" => ->(w) { w.define_singleton_method(:retry_in) { |_| exit } },
    "retry_in throwing" => ->(w) { w.define_singleton_method(:retry_in) { |_| throw :nowhere } },
    "retry_in ending its thread" => ->(w) { w.define_singleton_method(:retry_in) { |_| Thread.exit } },
    "format_error raising" => ->(_) { Seriatim.format_error = ->(_) { raise "hook" } },
    "format_error giving nil" => ->(_) { Seriatim.format_error = ->(_) {} },
    "format_error ending its thread" => ->(_) { Seriatim.format_error = ->(_) { Thread.exit } },
    "format_error giving a text that is none" => ->(_) { Seriatim.format_error = ->(_) { "\xFF\0" } },
    "format_error giving 2 MiB" => ->(_) { Seriatim.format_error = ->(_) { "x" * (2 << 20) } },
    "dump_error giving a number" => ->(_) { Seriatim.dump_error = ->(_) { 5 } },
    "dump_error ending its thread" => ->(_) { Seriatim.dump_error = ->(_) { Thread.exit } },
    "dump_error raising" => ->(_) { Seriatim.dump_error = ->(_) { raise "hook" } },
    "a middleware raising" => ->(_) { Seriatim.server_middlewares << ->(_, _) { raise "middleware" } },
    "a middleware raising after the job" => ->(_) { Seriatim.server_middlewares << ->(_, _, &b) { b.call rescue raise Exception, "middleware" } }, # rubocop:disable Style/RescueModifier, Lint/RaiseException
    "a middleware that takes nothing" => ->(_) { Seriatim.server_middlewares << -> {} },
    "a middleware throwing" => ->(_) { Seriatim.server_middlewares << ->(_, _) { throw :nowhere } },
    "a middleware ending its thread" => ->(_) { Seriatim.server_middlewares << ->(_, _) { Thread.exit } },
    "a middleware that spoils the batch" => ->(_) { Seriatim.server_middlewares << ->(_, b, &c) { b.payloads_by_id.clear && c.call } },
    "a logger raising" => ->(_) { Seriatim.logger = Logger.new(nil, level: Logger::DEBUG).tap { |l| l.define_singleton_method(:add) { |*| raise Exception, "log" } } }
  }.each do |name, spoil|
    it "F32 survives #{name}" do
      recorder = worker("Hooks", batch_size: 5, shards_count: 1) { raise "x" }
      recorder.define_singleton_method(:retry_in) { |_| 60 }
      spoil.call(recorder)
      recorder.perform_async([{ id: 1 }, { id: 2 }])
      server = serve(recorder, threads: 1)
      eventually { recorder.metrics[:failed] >= 2 }
      expect(recorder.queries.fetch([1, 2]).map { |r| r[:retry_count] }).to eq([0, 0]) unless name == "retry_in giving minus infinity"
      expect(server.stop(30)).to be(true)
    end
  end

  # Redis closes the connection at an argument beyond proto-max-bulk-len, 512 MiB.
  it "F32 settles a job whose error is longer than Redis takes" do
    REDIS.call("CONFIG", "SET", "proto-max-bulk-len", "1048576")
    recorder = worker("Long", codec: [:to_s.to_proc, ->(bytes) { bytes == "broken" ? raise("é" * (2 << 20)) : bytes }]) { raise "é" * (2 << 20) }
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async([{ id: 1 }, { id: 2, payload: "broken" }])
    serve(recorder)
    eventually { recorder.metrics.values_at(:retries, :morgue_length) == [1, 1] }
    errors = [recorder.queries.fetch([1]), recorder.queries.morgue_fetch([2])].map { |(record)| record[:error] }
    expect(errors).to all(be_valid_encoding.and(have_attributes(bytesize: be_between(65_533, 65_536))))
  ensure
    REDIS.call("CONFIG", "SET", "proto-max-bulk-len", 512 << 20)
  end

  it "F32 takes a negative retry_in as now" do
    recorder = worker("Hooks", max_retry_count: 2) { raise "x" }
    recorder.define_singleton_method(:retry_in) { |_| -5 }
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    runs(recorder, 3)
  end

  it "F32 fails an id alone whose outcome cannot be recorded" do
    recorder = worker("Spoiled", batch_size: 9, shards_count: 1) do |_, batch|
      batch.snooze("a", 1)
      batch.outcome("a").payload = "x" * 1_048_577
      batch.fail("b", "boom")
      batch.done("c")
      batch.snooze("d", 60)
    end
    recorder.define_singleton_method(:retry_in) { |_| 60 }
    recorder.perform_async(%w[a b c d].map { |id| { id: id } })
    serve(recorder, threads: 1)
    eventually { recorder.metrics.values_at(:processed, :failed, :busy) == [1, 2, 0] }
    records = recorder.queries.fetch(%w[a b c d]).to_h { |record| [record[:id], record.values_at(:retry_count, :error)] }
    expect(records).to match("a" => [0, /Invalid/], "b" => [0, "boom"], "d" => [-1, nil])
    expect(recorder.runs.size).to eq(1)
  end

  it "hands back what still runs when the time is up, its retry_count unchanged" do
    begun = Thread::Queue.new
    recorder = worker("Slow") { (begun << true) && sleep(30) }
    recorder.perform_async([{ id: 1 }])
    server = serve(recorder)
    begun.pop
    expect(server.stop(0.3)).to be(false)
    expect(eventually { recorder.queries.fetch([1]).first }).to include(retry_count: -1)
  end

  it "R-CHECKPOINT-7: raises Stale from a flush of what was handed back" do
    flushed = Thread::Queue.new
    recorder = worker("Slow") do |_, batch|
      runner = Seriatim::Server.running.first.instance_variable_get(:@runner)
      runner.stop
      runner.abandon
      batch.checkpoint(1, 1)
      flushed << batch.flush
    rescue Seriatim::Error => e
      flushed << e
    end
    recorder.perform_async([{ id: 1, payload: 1 }])
    serve(recorder)
    expect(flushed.pop).to be_a(Seriatim::Stale)
    expect(eventually { recorder.queries.fetch([1]).first }[:payloads].size).to eq(1)
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
