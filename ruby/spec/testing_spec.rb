# frozen_string_literal: true

require_relative "spec_helper"
require "minitest"
require "seriatim/minitest"
require "seriatim/rspec"

RSpec.describe "Seriatim.testing!" do
  # Nothing answers there: a test mode asks no Redis.
  before { Seriatim.redis = "redis://127.0.0.1:1" }

  around do |example|
    example.run
  ensure
    Seriatim.testing!(:disable)
  end

  def paid = { "status" => "paid" }

  def given(worker) = Array.new(worker.runs.size) { worker.runs.pop.payloads }

  describe ":fake" do
    around { |example| Seriatim.testing!(:fake) { example.run } }

    it "R-TEST-4: keeps pushes, folded and in order, until drain runs them" do
      orders = worker("Orders", batch_size: 2)
      result = orders.perform_async([{ id: 1, payload: { status: :paid } }, { id: 1, payload: 2, score: 5 }, { id: 1, payload: paid }])
      expect(result).to have_attributes(added: 1, folded: 2, refused: 0, scheduled: 0)
      expect(orders.jobs).to match([include(id: "1", payload: 2, score: 5.0, state: :waiting, retry_count: -1, error: nil),
                                    include(payload: paid, score: nil)])
      expect(orders.runs).to be_empty
      expect(orders.drain).to eq(1)
      expect(given(orders)).to eq([{ "1" => [2, paid] }])
      expect(orders.jobs).to be_empty
    end

    it "R-TEST-4: runs by time: drain(at:) what is due by then, drain all" do
      orders = worker
      orders.perform_async([{ id: "late", delay: 7200 }, { id: "soon", deliver_in: 60 }, { id: "now" }])
      expect(orders.drain(at: Time.now)).to eq(1)
      expect(orders.drain(at: Time.now + 3600)).to eq(1)
      expect(orders.jobs.map { |job| job[:id] }).to eq(["late"])
      expect(orders.perform_one).to be(true)
      expect(orders.perform_one).to be(false)
      orders.perform_async([{ id: "after" }])
      expect(orders.drain(at: Time.now)).to eq(1)
      expect(given(orders).flat_map(&:keys)).to eq(%w[now soon late after])
    end

    it "R-TEST-4: runs what is due while the clock of the test stands still" do
      orders = worker
      allow(Time).to receive(:now).and_return(Time.at(1_800_000_000))
      3.times { |id| orders.perform_async([{ id: id }]) }
      orders.perform_async([{ id: "later", delay: 1 }])
      expect(orders.drain(at: Time.now)).to eq(3)
      expect(orders.drain(at: Time.now + 1)).to eq(1)
    end

    it "R-TEST-5: records a failure, then raises what perform raised; raise: false goes on to the morgue" do
      told = []
      orders = worker("Failing", max_retry_count: 2) { raise IOError, "no" }
      orders.define_singleton_method(:retries_exhausted) { |jobs| told.concat(jobs) }
      orders.perform_async([{ id: 1, payload: paid }])
      expect { orders.drain }.to raise_error(IOError, "no")
      expect(orders.jobs).to match([include(retry_count: 0, error: "no", state: :waiting)])
      expect(orders.drain(raise: false)).to eq(2)
      expect(orders.jobs).to be_empty
      expect(orders.dead_jobs).to match([include(id: "1", payload: paid, error: "no", state: :dead)])
      expect(told).to match([include(id: "1", payloads: [[paid, Float]], error: "no")])
    end

    it "R-TEST-5: raises what ends the test with raise: false, too" do
      stub_const("Timeout::ExitException", Class.new(Exception)) unless defined?(Timeout::ExitException)
      [Interrupt.new(""), SignalException.new("TERM"), Timeout::ExitException.new("over")].each do |error|
        codec = [:to_s.to_proc, ->(bytes) { bytes == "bad" ? raise(IOError) : bytes }]
        orders = worker("Ended", batch_size: 10, shards_count: 1, codec: codec) { raise error }
        orders.perform_async([{ id: 1, payload: "bad" }, { id: 2 }])
        expect { orders.drain(raise: false) }.to raise_error(error.class)
        expect(orders.runs.size).to eq(1)
        expect(orders.jobs).to match([include(id: "2", retry_count: 0)])
        Seriatim::Testing.clear
      end
    end

    it "R-TEST-5: ends by the Timeout of a test with raise: false" do
      orders = worker("Slow") { sleep }
      orders.perform_async([{ id: 1 }])
      expect { Timeout.timeout(0.1) { orders.drain(raise: false) } }.to raise_error(Timeout::Error)
      expect(orders.runs.size).to eq(1)
    end

    it "R-TEST-5: waits as retry_in says, and an id that was reported to have failed raises too" do
      orders = worker { |payloads, batch| payloads.each_key { |id| batch.fail(id, "bad #{id}") } }
      orders.define_singleton_method(:retry_in) { |_count| 600 }
      orders.perform_async([{ id: 1 }])
      expect { orders.perform_one }.to raise_error(Seriatim::Error, "bad 1")
      expect(orders.drain(at: Time.now + 500)).to eq(0)
      expect { orders.drain(at: Time.now + 700) }.to raise_error(Seriatim::Error)
    end

    it "R-TEST-6: runs both chains of middlewares, and gives batch what a server gives" do
      seen = []
      Seriatim.client_middlewares << ->(_worker, jobs, &block) { jobs.each { |job| job[:context] = { "by" => "test" } } && block.call }
      Seriatim.server_middlewares << ->(worker, batch, &block) { seen << worker << batch.contexts("1") && block.call }
      orders = worker("Batched", fold: :list) do |_payloads, batch|
        seen << batch.scores("1") << batch.retry_count("1") << batch.fence("1").positive? << batch.shard.between?(0, 4)
        batch.checkpoint("1", 1)
        batch.flush
        batch.snooze("1", 60, payload: "again")
      end
      orders.perform_async([{ id: 1, payload: 1, score: 1 }, { id: 1, payload: 2, score: 2 }])
      orders.perform_one
      expect(seen).to eq([orders, [{ "by" => "test" }, { "by" => "test" }], [1.0, 2.0], -1, true, true])
      expect(orders.jobs).to match([include(payload: "again", score: 2.0, state: :waiting)])
    end

    it "R-TEST-6: keeps what is pushed while the id runs for its next run" do
      orders = worker { |payloads, _| orders.perform_async([{ id: 1, payload: "second" }]) if payloads["1"] == ["first"] }
      orders.perform_async([{ id: 1, payload: "first" }])
      expect(orders.drain).to eq(2)
      expect(given(orders)).to eq([{ "1" => ["first"] }, { "1" => ["second"] }])
    end

    it "R-TEST-6: runs handlers of events; an event without one waits" do
      events = Seriatim.events("Tested")
      heard = []
      events.enqueue("paid", id: 1, event: paid)
      expect(Seriatim::Testing.drain).to eq(0)
      expect(events.worker("paid").drain).to eq(0)
      events.on("paid") { |event, _| heard << event }
      expect(Seriatim::Testing.drain(raise: false)).to eq(70), "true is returned of no run"
      events.off("paid")
      events.on("paid") { |event, _| heard.replace([event]) && true }
      Seriatim.testing!(:inline) do
        events.enqueue("paid", id: 2, event: 2)
        events.off("paid")
        events.enqueue("paid", id: 3, event: 3)
      end
      expect(heard).to eq([2])
    end

    it "R-TEST-7: cancels and reschedules by handle" do
      orders = worker
      first, second = orders.perform_async([{ id: 1, deliver_in: 60 }, { id: 2, deliver_in: 60 }]).handles
      expect(orders.actions.cancel(first)).to be(true)
      expect(orders.actions.cancel(first)).to be(false)
      expect(orders.actions.reschedule(second, Time.now + 3600)).to be(true)
      expect(orders.drain(at: Time.now + 600)).to eq(0)
      expect(orders.drain).to eq(1)
    end

    it "R-TEST-8: refuses wrong jobs and payloads as a push does, before anything is kept" do
      orders = worker
      expect { orders.perform_async([{ id: 1 }, { id: 2, payload: Object.new }]) }.to raise_error(Seriatim::Invalid, /jobs\[1\].payload/)
      expect { orders.perform_async([{ id: 1, perform_in: 60 }]) }.to raise_error(Seriatim::Invalid, /60 is in 1970; for seconds from now use deliver_in \(this payload\) or delay \(its id\)/)
      expect { orders.perform_async([{ id: "" }]) }.to raise_error(Seriatim::Invalid, "jobs[0]: id is empty")
      expect(orders.jobs).to be_empty
    end

    it "R-TEST-8: raises what load_payload raised, and the payload is dead; what was pushed and is kept is told as bytes" do
      [IOError, NotImplementedError, SystemStackError].each do |error|
        orders = worker("Broken", codec: [:to_s.to_proc, ->(_bytes) { raise error, "unreadable" }])
        orders.perform_async([{ id: 1, payload: 7 }])
        expect([orders.jobs, Seriatim::Testing.pushed]).to match([[include(payload: "7", state: :waiting)], [have_attributes(payload: "7")]])
        expect { orders.drain }.to raise_error(error, "unreadable")
        expect(orders.dead_jobs).to match([include(payload: "7", error: /unreadable/)])
        Seriatim.testing!(:inline) { expect { orders.perform_async([{ id: 1, payload: 7 }]) }.to raise_error(error, "unreadable") }
        Seriatim::Testing.clear
      end
    end

    %i[fake inline].each do |mode|
      it "R-TEST-9: refuses what needs Redis, by name, in the mode #{mode}" do
        popped = Seriatim.delivery("AUMZhfhbqRHsQxmF-Fun1QxB2sNdQZ4C9wAAAAAAAAAAAAEACABSZWNvcmRlcjE")
        calls = {
          "metrics" => [-> { worker.metrics }],
          "query" => [-> { worker.queries.fetch([1]) }, -> { worker.queries.range_by_deliver_at("-inf", "+inf") }],
          "explain" => [-> { worker.queries.explain(1) }],
          "layout" => [-> { worker.queue.shards_count }],
          "the action pause" => [-> { worker.actions.pause }],
          "check" => [-> { worker.actions.check }],
          "nodes" => [-> { Seriatim::Metrics.nodes }],
          "node_command" => [-> { Seriatim.quiet_node("a") }, -> { Seriatim.stop_node("a") }],
          "pop" => [-> { Seriatim.pop("Recorder", wait: 0) }],
          "a report on a delivery" => [-> { popped.ack }],
          "ick" => [-> { Seriatim::Ick.new.ickstats("a") }, -> { Seriatim::Ick.new("redis://127.0.0.1:1").ickstats("a") }],
          "a server" => [-> { Seriatim::Server.new(workers: [worker]).start }]
        }
        Seriatim.testing!(mode) do
          calls.each { |name, all| all.each { |call| expect(&call).to raise_error(Seriatim::Invalid, /\A#{name} needs Redis/) } }
        end
      end
    end

    it "R-TEST-9: clears and drains all workers in order of time" do
      first = worker("First")
      second = worker("Second") { first.perform_async([{ id: "more" }]) }
      first.perform_async([{ id: 1, delay: 60 }])
      second.perform_async([{ id: 2 }])
      expect(Seriatim::Testing.drain).to eq(3)
      second.perform_async([{ id: 3 }])
      Seriatim::Testing.clear
      expect([first.jobs, second.jobs, Seriatim::Testing.pushed]).to all(be_empty)
      second.perform_async([{ id: 4 }])
      second.clear
      expect(second.jobs).to be_empty
    end
  end

  it "R-TEST-10: is of the thread and its block; blocks nest, each with queues of its own; without a block it is of the process" do
    orders = worker
    Seriatim.testing!(:fake) do
      orders.perform_async([{ id: 1 }])
      Seriatim.testing!(:fake) { expect(orders.jobs).to be_empty }
      Seriatim.testing!(:inline) { orders.perform_async([{ id: 2 }]) }
      expect(orders.jobs.map { |job| job[:id] }).to eq(["1"])
      expect { Seriatim.testing!(:fake) }.to raise_error(Seriatim::Invalid, /needs a block here/)
      other = Thread.new { orders.jobs }.tap { |thread| thread.report_on_exception = false }
      expect { other.value }.to raise_error(Seriatim::Invalid, /testing!\(:fake\) first/)
    end
    Seriatim.testing!(:fake)
    expect(Thread.new { orders.perform_async([{ id: 3 }]) && orders.jobs.size }.value).to eq(1)
    expect { Seriatim.testing!(:wrong) }.to raise_error(Seriatim::Invalid)
    expect(given(orders)).to eq([{ "2" => [""] }])
  end

  it "R-TEST-10: leaves a real push alone in :disable" do
    Seriatim.testing!(:fake) do
      Seriatim.testing!(:disable) do
        Seriatim.redis = REDIS.url
        worker.perform_async([{ id: 1 }])
        expect(worker.metrics[:length]).to eq(1)
      end
    end
  end

  it "R-TEST-11: runs each push at once in :inline, without regard to times, and errors reach the caller" do
    orders = worker("Inline", batch_size: 10) { |payloads, _| raise IOError, "no" if payloads.key?("bad") }
    Seriatim.testing!(:inline) do
      result = orders.perform_async([{ id: 1, payload: 1, delay: 60 }, { id: 1, payload: 2 }, { id: 2, deliver_in: 60 }])
      expect(result).to have_attributes(added: 1, folded: 1, scheduled: 1)
      expect { orders.perform_async([{ id: "bad" }]) }.to raise_error(IOError, "no")
    end
    expect(given(orders).reduce(&:merge)).to eq("1" => [1, 2], "2" => [""], "bad" => [""])
  end

  it "R-TEST-11: runs an id once for each push in :inline, though it is snoozed or has failed" do
    orders = worker("Once") { |payloads, batch| payloads.key?("bad") ? batch.fail("bad", "no") : batch.snooze("1", 0.001) }
    Seriatim.testing!(:inline) do
      2.times { orders.perform_async([{ id: 1 }]) }
      expect { orders.perform_async([{ id: "bad" }]) }.to raise_error(Seriatim::Error, "no")
    end
    expect(given(orders).map(&:keys)).to eq([["1"], ["1"], ["bad"]])
  end

  it "R-TEST-11: runs an id once for each push in :inline, though it is snoozed for 0 seconds" do
    runs = 0
    orders = worker("Once") { |_payloads, batch| (runs += 1) < 3 ? batch.snooze("1", 0) : raise("it ran #{runs} times") }
    Seriatim.testing!(:inline) { orders.perform_async([{ id: 1 }]) }
    expect(runs).to eq(1)
  end

  it "R-TEST-11: keeps no jobs in :inline, and says so where they are asked for; clear forgets what was pushed" do
    orders, others = worker("Orders"), worker("Others")
    Seriatim.testing!(:inline) do
      [orders, others].each { |each| each.perform_async([{ id: 1 }]) }
      calls = %i[jobs dead_jobs perform_one drain].map { |name| orders.method(name) } << Seriatim::Testing.method(:drain)
      calls.each { |call| expect { call.call }.to raise_error(Seriatim::Invalid, /call Seriatim.testing!\(:fake\) first/), call.name.inspect }
      orders.clear
      expect(Seriatim::Testing.pushed.map(&:queue)).to eq(["Others"])
      Seriatim::Testing.clear
      expect(Seriatim::Testing.pushed).to be_empty
    end
    [orders.method(:clear), Seriatim::Testing.method(:clear)].each { |call| expect { call.call }.to raise_error(Seriatim::Invalid) }
  end

  it "R-TEST-12: gives a batch for a test that calls perform itself" do
    orders = worker("Direct", fold: :list) do |_payloads, batch|
      batch.checkpoint(1, 1)
      batch.snooze(1, 60)
      batch.fail(2, "no")
      batch.done("3")
      batch.extend(5)
    end
    batch = Seriatim::Testing.batch(orders, { 1 => [{ status: :paid }, 2], 2 => [3], 3 => [] }, retry_count: 4, contexts: { 2 => [{ "a" => "b" }] })
    orders.perform(batch.to_h, batch)
    expect(batch).to have_attributes(to_h: { "1" => [paid, 2], "2" => [3], "3" => [] }, checkpoints: { "1" => 1 }, snoozed: { "1" => 60.0 },
                                     failed: { "2" => "no" }, finished: ["3"], extended: 5.0)
    expect([batch.retry_count(1), batch.scores(1), batch.contexts(2)]).to eq([4, [1.0, 2.0], [{ "a" => "b" }]])
    expect { batch.checkpoint(1, 3) }.to raise_error(Seriatim::Invalid)
    expect { batch.snooze(1, 0, payload: "x" * 1_048_575) }.to raise_error(Seriatim::Invalid, /payload is 1048577 bytes long/)
  end

  describe "push_to" do
    around { |example| Seriatim.testing!(:fake) { example.run } }

    let(:orders) { worker("Orders") }

    def push(**job) = orders.perform_async([{ id: 1, payload: { status: "paid", at: 7 }, **job }])

    it "R-TEST-13: finds the jobs that a block pushes, by every field" do
      time = Time.now + 60
      expect { push }.to push_to(orders)
      expect { push(score: 3) }.to push_to(orders).with_id(1).with_payload(status: :paid, at: Integer).with_score(3).once
      expect { push }.to push_to(orders).with_payload(hash_including("status" => /pa/)).with_score(nil)
      expect { push(perform_at: time) }.to push_to(orders).at(time).in(60)
      expect { push(deliver_in: 60) }.to push_to(orders).in(60).at(a_value > Time.now.to_f + 50)
      expect { 2.times { push(context: { a: "b" }) } }.to push_to(orders).with_context(a: "b").exactly(2).times
      expect { push(on_waiting: "later") }.to push_to(orders).with_on_waiting(:later)
      expect { push }.not_to push_to(orders).with_id(2)
      expect { push }.to push_to(orders).and(change { orders.jobs.size }.by(0))
      expect { nil }.not_to push_to(orders)
    end

    it "R-TEST-13: says what was pushed instead, and does not count refused jobs" do
      expect { expect { push(score: 2) }.to push_to(orders).with_id(2) }
        .to raise_error(RSpec::Expectations::ExpectationNotMetError, /expected to push to .* with id "2", but 0 of 1 pushed jobs match:\n  id "1", payload .*score 2.0/)
      expect { expect { push }.not_to push_to(orders) }.to raise_error(RSpec::Expectations::ExpectationNotMetError, /expected not to push/)
      expect { expect { push(at: 1) }.to push_to(orders) }.to raise_error(Seriatim::Invalid)
      expect { push(on_waiting: "reject") }.not_to push_to(orders)
    end
  end

  describe "assert_pushed" do
    around { |example| Seriatim.testing!(:fake) { example.run } }

    let(:test) { Class.new { include Minitest::Assertions and attr_accessor :assertions }.new.tap { |test| test.assertions = 0 } }
    let(:orders) { worker("Orders") }

    it "R-TEST-14: asserts and refutes pushes of a block, or all" do
      test.assert_pushed(orders, id: 1, payload: { status: "paid" }, in: 60, times: 1) { orders.perform_async([{ id: 1, payload: paid, delay: 60 }]) }
      test.assert_pushed(orders, payload: Hash)
      test.assert_pushed(orders, payload: { status: /pa/ })
      test.refute_pushed(orders, payload: { status: Integer })
      test.refute_pushed(orders, payload: { status: /pa/, other: 1 })
      test.refute_pushed(orders, id: 2)
      test.refute_pushed(orders) { nil }
      expect { test.assert_pushed(orders, id: 2) }.to raise_error(Minitest::Assertion, /expected to push to/)
      expect { test.refute_pushed(orders) }.to raise_error(Minitest::Assertion, /expected not to push to/)
      expect { test.assert_pushed(orders, idd: 2) }.to raise_error(Seriatim::Invalid, /unknown field :idd/)
    end
  end

  it "R-TEST-13: without a test mode the matchers say which call is missing" do
    expect { expect { nil }.to push_to(worker) }.to raise_error(Seriatim::Invalid, /no test mode is on/)
  end
end
