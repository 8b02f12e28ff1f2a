# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "Seriatim.pop" do
  def pop(queues, **options) = Seriatim.pop(queues, wait: 0, **options)

  def popped(queues, **options) = eventually { pop(queues, **options) }

  def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # A worker whose queue exists and is empty: a pop that waits subscribes to its channels.
  def emptied(name)
    worker(name).tap do |queue|
      queue.perform_async([{ id: "first" }])
      pop(queue).ack
    end
  end

  # Until as many pops of this process sleep, which are subscribed then.
  def until_asleep(count = 1)
    eventually { REDIS.call("CLIENT", "LIST", "TYPE", "pubsub").to_s.scan("name=seriatim-client").size >= count }
  end

  it "R-POP-1: gives one id with its payloads, scores and contexts, and ack ends it", :core do
    queue = worker("Pulled", fold: :list)
    queue.perform_async([{ id: 1, payload: { "n" => 2 }, score: 2 }, { id: 1, payload: { "n" => 1 }, score: 1, context: { "trace" => "t" } }])
    delivery = pop("Pulled")
    expect(delivery).to have_attributes(id: "1", queue: "Pulled", payloads: [{ "n" => 1 }, { "n" => 2 }], scores: [1.0, 2.0],
                                        contexts: [{ "trace" => "t" }, {}], deliveries: 1, fence: be > 0, token: be_a(String))
    expect(pop(["Pulled"])).to be_nil
    expect(delivery.ack).to be(true)
    expect(queue.metrics).to include(length: 0, busy: 0, processed: 1)
  end

  it "R-POP-2: raises Stale where the delivery has ended or its time is over, and changes nothing" do
    queue = worker("Late")
    queue.perform_async([{ id: 1 }])
    first = pop(queue, ttr: 0.05)
    second = popped(queue)
    expect(second).to have_attributes(deliveries: 2, fence: be > first.fence)
    reports = [-> { first.ack }, -> { first.fail("x") }, -> { first.release }, -> { first.extend(1) }, -> { first.snooze(1) }, -> { first.checkpoint(1) }]
    reports.each { |report| expect(&report).to raise_error(Seriatim::Stale, /not this consumer's any more/) }
    expect(second.ack).to be(true)
    expect { second.ack }.to raise_error(Seriatim::Stale)
  end

  it "R-POP-3: fails an id with the text of format_error through dump_error, and retries it after retry_in" do
    Seriatim.format_error = ->(error) { "F:#{error.message}" }
    Seriatim.dump_error = ->(text) { "D:#{text}" }
    queue = worker("Fails", max_retry_count: 1)
    queue.perform_async([{ id: 1 }])
    pop(queue).fail(RuntimeError.new("no"), retry_in: 600)
    expect(queue.queries.range_by_id("-", "+").first).to include(error: "D:F:no", retry_count: 0, perform_in: be_within(60).of(Time.now.to_f + 600))
    queue.actions.perform_now([1])
    pop(queue).fail("again")
    expect(queue.queries.morgue_fetch(["1"]).first).to include(error: "D:again")
  end

  it "R-POP-3: waits for the default back-off where fail has no retry_in" do
    queue = worker("Backs")
    queue.perform_async([{ id: 1 }])
    pop(queue).fail("no")
    expect(queue.queries.fetch([1]).first[:perform_in]).to be_within(60).of(Time.now.to_f + 30)
  end

  it "stores an error where format_error or dump_error raises, and says so in the log" do
    Seriatim.format_error = ->(_error) { raise "format" }
    Seriatim.dump_error = ->(text) { text.start_with?("boom") ? text : raise("dump") }
    queue = worker("Hooks")
    queue.perform_async([{ id: 1 }])
    pop(queue).fail(RuntimeError.new("no"))
    expect(queue.queries.fetch([1]).first[:error]).to include("RuntimeError: no", "dump_error raised")
    expect(@log.string).to include("format_error raised", "dump_error raised")
  end

  it "R-POP-4: hands an id back with release and snooze, which count no failure" do
    queue = worker("Back", fold: :list)
    queue.perform_async([{ id: 1, payload: "a" }, { id: 1, payload: "b" }])
    expect(pop(queue).release).to be_nil
    pop(queue).snooze(0, payload: "c")
    delivery = popped(queue)
    expect(delivery).to have_attributes(payloads: %w[c b], deliveries: 3)
    delivery.snooze(600)
    expect(queue.queries.fetch([1]).first).to include(retry_count: -1, payloads: [["c", anything], ["b", anything]])
    expect(pop(queue)).to be_nil
  end

  it "R-POP-5: has ended with ttr: 0; ack is true, and the others say why they cannot be" do
    queue = worker("Once")
    queue.perform_async([{ id: 1, payload: "only" }])
    delivery = pop(queue, ttr: 0)
    expect(delivery).to have_attributes(payloads: ["only"], token: nil, ack: true)
    expect { delivery.release }.to raise_error(Seriatim::Invalid, /popped with ttr: 0/)
    expect { delivery.fail("x") }.to raise_error(Seriatim::Invalid, /popped with ttr: 0/)
    expect(queue.metrics).to include(length: 0, busy: 0)
  end

  it "R-POP-6, R-POP-15: gives at most max payloads, and a checkpoint keeps what is done" do
    queue = worker("Some", fold: :list)
    queue.perform_async(%w[a b c d].map { |payload| { id: 1, payload: payload } })
    delivery = pop(queue, max: 3)
    expect(delivery.payloads).to eq(%w[a b c])
    expect { delivery.checkpoint(4) }.to raise_error(Seriatim::Invalid, /count must be an Integer from 0 to 3/)
    delivery.checkpoint(0)
    delivery.checkpoint(2)
    delivery.checkpoint(1)
    delivery.release
    delivery = pop(queue)
    expect(delivery).to have_attributes(payloads: %w[c d], deliveries: 1)
    delivery.ack
    expect(pop(queue)).to be_nil
  end

  it "R-POP-7: gives the first queue first, by names, Symbols and workers" do
    low = worker("Low")
    high = worker("High")
    [low, high].each { |queue| queue.perform_async([{ id: 1 }, { id: 2 }]) }
    expect(Array.new(4) { pop([high, :Low]).queue }).to eq(%w[High High Low Low])
  end

  it "R-POP-8: takes turns by weights" do
    queues = [worker("Heavy"), worker("Light")]
    queues.each { |queue| queue.perform_async(Array.new(8) { |id| { id: id } }) }
    turns = Array.new(8) { pop(%w[Heavy Light], weights: { queues[0] => 3, "Light" => 1 }).queue }
    expect(turns.tally).to eq("Heavy" => 6, "Light" => 2)
  end

  it "R-POP-8: takes turns by weights over all connections of the process" do
    queues = [worker("Most"), worker("Few")]
    queues.each { |queue| queue.perform_async(Array.new(6) { |id| { id: id } }) }
    one = -> { pop(%w[Most Few], weights: { "Most" => 2, "Few" => 1 }).queue }
    turns = Array.new(6) { |at| at.even? ? one.call : Seriatim::Pool.poppers.with { one.call } }
    expect(turns).to eq(%w[Most Few Most Most Few Most])
  end

  it "extends the time to run" do
    queue = worker("Extends")
    queue.perform_async([{ id: 1 }])
    delivery = pop(queue, ttr: 3)
    delivery.extend(60)
    sleep 4
    expect(pop(queue)).to be_nil
    expect(delivery.ack).to be(true)
  end

  it "R-POP-13: waits for an id, and ends its wait in time" do
    queue = emptied("Awaited")
    waiting = Thread.new { Seriatim.pop(queue, wait: 60) }
    until_asleep
    queue.perform_async([{ id: 1, payload: "come" }])
    expect(waiting.value.payloads).to eq(["come"])
    started = monotonic
    expect(Seriatim.pop(queue, wait: 0.5)).to be_nil
    expect(monotonic - started).to be_between(0.45, 20)
  end

  # Those of programs: the commands of scripts are not counted.
  def scripts_run = REDIS.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i

  # A pop looks at all shards once more when it has subscribed. @return [Integer] the scripts that Redis has run when no more come
  def scripts_run_at_rest
    before = nil
    eventually do
      sleep 0.3 if before
      before == (before = scripts_run)
    end
    before
  end

  it "R-POP-13: sleeps while an id is due in an hour, and takes one that becomes due before it" do
    queue = emptied("Distant")
    queue.perform_async([{ id: "distant", delay: 3600 }])
    waiting = Thread.new { Seriatim.pop(queue, wait: 60) }
    until_asleep
    before = scripts_run_at_rest
    sleep 2
    expect(scripts_run - before).to be <= 1
    due = Time.now.to_f + 1
    queue.perform_async([{ id: "near", perform_in: due }])
    expect(waiting.value.id).to eq("near")
    expect(Time.now.to_f).to be >= due
    expect(scripts_run - before).to be < 20 # of each shard one, and some around the moment at which the id is due
  end

  it "lets other threads run while it waits, takes none of their connections, and is interrupted by kill, Timeout and raise" do
    Seriatim.client_pool_size = 1
    queue = emptied("Interrupted")
    threads = Array.new(3) { Thread.new { Seriatim.pop(queue, wait: 60) } }
    until_asleep(3)
    expect(queue.metrics).to include(length: 0)
    started = monotonic
    threads[0].kill.join
    threads[1].report_on_exception = false
    threads[1].raise(IOError, "out")
    expect { threads[1].join }.to raise_error(IOError)
    expect { Timeout.timeout(0.1) { Seriatim.pop(queue, wait: 60) } }.to raise_error(Timeout::Error)
    expect(monotonic - started).to be < 30
    queue.perform_async([{ id: 1 }])
    expect(threads[2].value.ack).to be(true)
  end

  it "hears a signal while it waits" do
    queue = emptied("Signalled")
    heard = Thread::Queue.new
    before = trap(:USR2) { heard << monotonic }
    waker = Thread.new do
      until_asleep
      sent = monotonic
      Process.kill(:USR2, Process.pid)
      at = heard.pop
      queue.perform_async([{ id: 1 }])
      at - sent
    end
    expect(Seriatim.pop(queue, wait: 60)).to have_attributes(id: "1")
    expect(waker.value).to be < 20
  ensure
    trap(:USR2, before || "DEFAULT")
  end

  it "R-POP-16: moves payloads that cannot be read to the morgue, and goes on" do
    raw = worker("Broken", codec: :raw, fold: :list)
    raw.perform_async([*Array.new(300) { |i| { id: "bad", payload: "no JSON #{i}" } }, { id: "bad", payload: "\"good\"" }])
    raw.codec = :json
    Seriatim.dump_error = ->(text) { "D:#{text}" }
    expect(pop(raw)).to have_attributes(id: "bad", payloads: ["good"])
    expect(raw.queries.morgue_fetch(["bad"]).first).to include(error: /\AD:undecodable payload/)
    expect(raw.metrics).to include(busy: 1, morgue_length: 1)
    expect(@log.string).to include("payloads cannot be read")
  end

  it "R-POP-16: ends its wait amid deliveries of which nothing can be read" do
    raw = worker("Broken", codec: :raw)
    raw.perform_async(Array.new(150) { |i| { id: i, payload: "no JSON" } })
    raw.codec = :json
    expect(pop(raw, wait: 0)).to be_nil
    expect(raw.metrics).to include(busy: 0, morgue_length: 100)
    expect(pop(raw, wait: 0.001)).to be_nil
    expect(raw.metrics).to include(morgue_length: 150)
  end

  it "R-POP-16: gives what can be read where ttr: 0 has ended the delivery" do
    raw = worker("Lossy", codec: :raw, fold: :list)
    raw.perform_async([{ id: 1, payload: "no JSON" }, { id: 2, payload: "no JSON" }, { id: 2, payload: "2" }])
    raw.codec = :json
    expect(popped(raw, ttr: 0)).to have_attributes(id: "2", payloads: [2], scores: [be_a(Float)])
    expect(pop(raw, ttr: 0)).to be_nil
  end

  [LoadError, NotImplementedError, SystemStackError].each do |error|
    it "R-POP-16: gives what can be read where the codec raises #{error}" do
      read = ->(bytes) { bytes == "bad" ? raise(error, "no") : bytes }
      queue = worker("Raises", codec: [:itself.to_proc, read], fold: :list)
      queue.perform_async([{ id: 1, payload: "bad" }, { id: 1, payload: "good" }])
      expect(pop(queue, ttr: 0)).to have_attributes(id: "1", payloads: ["good"])
      queue.perform_async([{ id: 2, payload: "bad" }, { id: 2, payload: "good" }])
      expect(popped(queue)).to have_attributes(id: "2", payloads: ["good"])
      expect(queue.queries.morgue_fetch([2]).first).to include(error: /undecodable payload: #{error}: no/)
    end
  end

  it "reads payloads with the worker's codec, also where the queue is named; with the module's where no worker is known" do
    Seriatim.dump_payload = ->(payload) { "m#{payload}" }
    Seriatim.load_payload = ->(bytes) { bytes.delete_prefix("m") }
    worker("Own", codec: :raw).perform_async([{ id: 1, payload: "bytes" }])
    expect(pop("Own").payloads).to eq(["bytes"])
    module_wide = worker("Gone")
    module_wide.perform_async([{ id: 1, payload: "text" }])
    Seriatim::Worker.all.delete(module_wide)
    delivery = pop("Gone")
    expect(delivery.payloads).to eq(["text"])
    delivery.snooze(0, payload: "next")
    expect(popped("Gone").payloads).to eq(["next"])
  end

  it "makes no queue" do
    expect(pop([worker("Never"), "Unknown"])).to be_nil
    expect(REDIS.call("KEYS", "*")).to be_empty
  end

  it "can be reported on by any thread, and by a child of fork" do
    queue = worker("Shared")
    queue.perform_async([{ id: 1 }, { id: 2 }])
    deliveries = Array.new(2) { pop(queue) }
    expect(Thread.new { deliveries[0].ack }.value).to be(true)
    child = fork { exit!(deliveries[1].ack && pop(queue).nil? ? 0 : 1) }
    expect(Process.wait2(child).last.exitstatus).to eq(0)
    expect(pop(queue)).to be_nil
    expect(queue.metrics).to include(length: 0, busy: 0)
  end

  it "finds the codec of a subclass by the name of its queue" do
    parent = Class.new { extend Seriatim::Worker; self.codec = :raw }
    stub_const("Letters", Class.new(parent))
    Letters.perform_async([{ id: 1, payload: "<bytes>" }])
    expect(pop("Letters").payloads).to eq(["<bytes>"])
  end

  it "R-POP-20: makes a delivery from a token, with the worker's codec and without payloads" do
    queue = worker("Named", codec: :raw)
    queue.perform_async([{ id: 1, payload: "a" }, { id: 1, payload: "b" }])
    popped = pop(queue)
    made = Seriatim.delivery(popped.token)
    expect([made.id, made.queue, made.fence, made.token]).to eq([popped.id, "Named", popped.fence, popped.token])
    expect([made.payloads, made.scores, made.contexts, made.deliveries, made.retry_count, made.error, made.more])
      .to eq([[], [], [], 0, -1, nil, false])
    expect { made.checkpoint(3) }.to raise_error(Seriatim::Invalid, /count must be an Integer from 0 to 2, not 3/)
    made.snooze(0, payload: "c")
    expect(pop("Named").payloads).to eq(%w[c b])
    expect { made.ack }.to raise_error(Seriatim::Stale)
  end

  it "gives an error through load_error" do
    Seriatim.load_error = ->(text) { "L:#{text}" }
    queue = worker("Loads")
    queue.perform_async([{ id: 1 }])
    pop(queue).fail("no", retry_in: 0)
    expect(pop(queue).error).to eq("L:no")
  end

  it "refuses what is no token" do
    [nil, 7].each { |token| expect { Seriatim.delivery(token) }.to raise_error(Seriatim::Invalid, /token must be a String/) }
    ["", "x" * 100, "\0" * 5000, "é"].each do |token|
      expect { Seriatim.delivery(token) }.to raise_error(Seriatim::Invalid, "token: the text is no token of a delivery")
    end
  end

  it "runs no middleware" do
    called = []
    Seriatim.client_middlewares = [->(*, &block) { called << :client; block.call }]
    Seriatim.server_middlewares = [->(*, &block) { called << :server; block.call }]
    queue = worker("Plainly")
    queue.perform_async([{ id: 1 }])
    pop(queue).ack
    expect(called).to eq([:client])
  end

  it "keeps no more connections than client_pool_size when nobody pops" do
    Seriatim.client_pool_size = 2
    queue = emptied("Keeps")
    threads = Array.new(4) { Thread.new { Seriatim.pop(queue, wait: 60) } }
    until_asleep(4)
    queue.perform_async(Array.new(4) { |id| { id: id } })
    threads.each(&:value)
    eventually { REDIS.call("CLIENT", "LIST", "TYPE", "pubsub").to_s.scan("name=seriatim-client").size <= 2 }
  end

  {
    [[], {}] => /queues must be 1 to 1000 queues, not \[\]/,
    [nil, {}] => /queues\[0\] must be the name of a queue or a worker, not nil/,
    [["a", 1], {}] => /queues\[1\] must be the name of a queue or a worker, not 1/,
    ["", {}] => /queues\[0\] must be a text of 1 to 512 bytes/,
    [["a", :a], {}] => /queues: "a" is named twice/,
    ["a", { wait: 61 }] => /wait must be a number of seconds from 0.0 to 60.0, not 61/,
    ["a", { wait: Float::NAN }] => /wait must be/,
    ["a", { ttr: -1 }] => /ttr must be a number of seconds from 0.0/,
    ["a", { ttr: 0.0001 }] => /ttr must be 0 or a number of seconds from 0.001, not 0.0001/,
    ["a", { max: 0 }] => /max must be an Integer from 1 to 1000, not 0/,
    ["a", { weights: [1] }] => /weights must be a Hash from queue to weight/,
    [%w[a b], { weights: { "a" => 1 } }] => /weights\["b"\] must be an Integer from 1 to 1000000, not nil/,
    ["a", { weights: { "a" => 1, "c" => 1 } }] => /weights: "c" is none of the queues/,
    ["a", { weights: { "a" => 1, a: 2 } }] => /weights: "a" is named twice/,
    ["a", { weights: { "a" => 0 } }] => /weights\["a"\] must be an Integer/
  }.each do |(queues, options), message|
    it "refuses #{queues.inspect}, #{options} before anything is sent" do
      Seriatim.redis = "redis://127.0.0.1:1"
      expect { Seriatim.pop(queues, **options) }.to raise_error(Seriatim::Invalid, message)
    end
  end

  it "refuses what a report cannot say before anything is sent" do
    queue = worker("Refuses")
    queue.perform_async([{ id: 1 }])
    delivery = pop(queue)
    expect { delivery.fail(7) }.to raise_error(Seriatim::Invalid, /error must be an Exception or a String, not 7/)
    expect { delivery.fail("x", retry_in: -1) }.to raise_error(Seriatim::Invalid, /retry_in must be a number of seconds/)
    expect { delivery.snooze("x") }.to raise_error(Seriatim::Invalid, /seconds must be a number of seconds/)
    expect { delivery.snooze(1, payload: Object.new) }.to raise_error(Seriatim::Invalid, /payload/)
    expect { delivery.extend(-1) }.to raise_error(Seriatim::Invalid, /seconds must be/)
    expect { delivery.checkpoint(2) }.to raise_error(Seriatim::Invalid, /count must be an Integer from 0 to 1, not 2/)
    expect(delivery.ack).to be(true)
  end
end
