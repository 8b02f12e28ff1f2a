# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/web_client"

# Delayed events: types with handlers, on workers and servers.
RSpec.describe Seriatim::Events do
  include WebClient

  let(:events) { Seriatim.events("shop") }
  let(:calls) { Thread::Queue.new }

  after { %w[Paid Sent Late].each { |type| events.off(type) } }

  # A server of events alone, which must be handled already.
  def serve_events(**options) = serve(**options)

  def call = Timeout.timeout(60) { calls.pop }

  def gone(type)
    eventually { events.worker(type).metrics.values_at(:length, :busy).sum.zero? }
  end

  def refused(message, &block)
    expect(&block).to raise_error(Seriatim::Invalid, include(message))
  end

  it "R-EVENT-1, R-EVENT-5: gives event and context to the handler, after the delay" do
    events.on("Paid") { |event, context| (calls << [event, context, now]) and true }
    events.enqueue("Paid", id: 1, event: { sum: 5 }, context: { "trace" => "t" })
    due = now + 0.5
    events.enqueue(:Paid, id: "2", event: "text", delay: 0.5)
    expect(events.worker("Paid").queue.name).to eq("shop:Paid")
    serve_events
    expect(call.first(2)).to eq([{ "sum" => 5 }, { "trace" => "t" }])
    event, context, at = call
    expect([event, context]).to eq(["text", {}])
    expect(at).to be >= due
    gone("Paid")
  end

  it "R-EVENT-2: ends an event only when the handler returns true" do
    outcomes = { "true" => true, "false" => false, "nil" => nil, "one" => 1, "text" => "true", "raise" => :raise }
    events.on("Paid", retry_in: ->(_count) { 600 }) do |event, _|
      outcome = outcomes.fetch(event)
      raise IOError, "lost" if outcome == :raise

      outcome
    end
    outcomes.each_key { |id| events.enqueue("Paid", id: id, event: id) }
    serve_events
    worker = events.worker("Paid")
    eventually { worker.metrics.values_at(:length, :busy, :retries) == [5, 0, 5] }
    failed = worker.queries.fetch(outcomes.keys).to_h { |record| [record[:id], record[:error]] }
    expect(failed.keys).to match_array(outcomes.keys - ["true"])
    expect(failed["false"]).to eq("the handler returned false (FalseClass), not true")
    expect(failed["nil"]).to eq("the handler returned nil (NilClass), not true")
    expect(failed["raise"]).to eq("lost")
  end

  it "R-EVENT-3: runs an event that always fails exactly `attempts` times, at the times of retry_in, then buries it" do
    [1, 2, 4].each do |attempts|
      events.off("Paid")
      events.on("Paid", attempts: attempts, retry_in: [0.1, 0.2]) { |_, _| (calls << now) and false }
      server = serve_events
      events.enqueue("Paid", id: attempts, event: 1)
      eventually { events.worker("Paid").queries.morgue_fetch([attempts]).size == 1 }
      times = Array.new(attempts) { call }
      expect(calls).to be_empty
      waits = times.each_cons(2).map { |before, after| after - before }
      expect(waits.zip([0.1, 0.2, 0.2])).to all(satisfy { |wait, least| wait >= least })
      server.stop
    end
  end

  it "R-EVENT-4: keeps the time of a waiting event, and the event that fold says" do
    { last: ["B"], first: ["A"], merge: %w[A B], list: %w[A B] }.each do |fold, kept|
      type = "Paid-#{fold}"
      events.on(type, fold: fold) { |event, _| (calls << event) and true }
      events.enqueue(type, id: fold, event: "A", delay: 1)
      due = events.worker(type).queries.fetch([fold]).first[:perform_in]
      events.enqueue(type, id: fold, event: "B", delay: 600)
      expect(events.worker(type).queries.fetch([fold]).first[:perform_in]).to eq(due)
      server = serve_events
      expect(Array.new(kept.size) { call }).to eq(kept)
      gone(type)
      server.stop
      events.off(type)
    end
  end

  it "R-EVENT-4: of several events of an id, those that ended do not come again" do
    fails = true
    events.on("Paid", fold: :list, retry_in: [0]) do |event, _|
      calls << event
      event != "B" || !(fails && (fails = false) == false)
    end
    %w[A B C].each { |event| events.enqueue("Paid", id: 1, event: event) }
    serve_events
    gone("Paid")
    expect(Array.new(calls.size) { calls.pop }).to eq(%w[A B B C])
  end

  it "R-EVENT-7: handles at most max_running events of a type at once" do
    lock, running, most, together = Mutex.new, 0, 0, Thread::Queue.new
    events.on("Paid", max_running: 2) do |_, _|
      lock.synchronize { most = [most, running += 1].max }
      together << true
      sleep 0.02
      lock.synchronize { running -= 1 }
      true
    end
    20.times { |id| events.enqueue("Paid", id: id, event: 1) }
    serve_events(threads: 5)
    gone("Paid")
    expect(most).to eq(2)
  end

  it "R-EVENT-7: handles the events of several types side by side, each type within its own limit" do
    types = %w[Paid Sent Late]
    lock, running, most = Mutex.new, Hash.new(0), Hash.new(0)
    types.each do |type|
      events.on(type, max_running: 3) do |event, _|
        lock.synchronize { most[type] = [most[type], running[type] += 1].max }
        sleep event / 1000.0
        lock.synchronize { running[type] -= 1 }
        calls << type
        true
      end
    end
    types.product([*0...30]) { |type, id| events.enqueue(type, id: id, event: id) }
    serve_events(threads: 9)
    expect(Array.new(90) { call }.tally).to eq(types.to_h { |type| [type, 30] })
    types.each { |type| gone(type) }
    expect(most.values.max).to be <= 3
  end

  it "R-EVENT-1: keeps the events that fifty threads enqueue at once" do
    Array.new(50) { |id| Thread.new { events.enqueue("Paid", id: id, event: id, delay: 600) } }.each(&:join)
    expect(events.worker("Paid").metrics[:length]).to eq(50)
  end

  it "R-EVENT-8: refuses what cannot be" do
    refused("on must be given a block") { events.on("Paid") }
    [0, 101, 1.5, nil].each { |count| refused("max_running must be") { events.on("Paid", max_running: count) { true } } }
    [0, 101].each { |count| refused("attempts must be") { events.on("Paid", attempts: count) { true } } }
    [:soon, [], nil, 5].each { |wait| refused("retry_in must be") { events.on("Paid", retry_in: wait) { true } } }
    refused("retry_in[1] must be") { events.on("Paid", retry_in: [1, -1]) { true } }
    refused("fold") { events.on("Paid", fold: :never) { true } }
    refused("type must be") { events.on("") { true } }
    refused("name must not contain") { Seriatim.events("a:b") }
    refused("id must not be nil") { events.enqueue("Paid", id: nil, event: 1) }
    refused("event must not be nil") { events.enqueue("Paid", id: 1, event: nil) }
    refused("delay must not be nil") { events.enqueue("Paid", id: 1, event: 1, delay: nil) }
    expect(events.off("Paid")).to be(false)
    events.on("Paid") { true }
    refused('"shop:Paid" has a handler already') { Seriatim.events(:shop).on(:Paid) { true } }
  end

  it "R-EVENT-9: a server that runs serves a type from its `on`, and hands it over at its `off`" do
    server = serve(worker("Other"))
    events.enqueue("Late", id: 1, event: "early")
    events.on("Late") { |event, _| (calls << event) and true }
    expect(call).to eq("early")
    expect(events.off("Late")).to be(true)
    expect(events.off("Late")).to be(false)
    eventually { server.stats[:shards] == 5 }
    events.enqueue("Late", id: 2, event: "after")
    gone = events.worker("Late").metrics
    expect([gone[:length], gone[:busy]]).to eq([1, 0])
    events.on("Late", attempts: 3) { |event, _| (calls << "again #{event}") and true }
    expect(call).to eq("again after")
    expect(calls).to be_empty
  end

  it "R-EVENT-9: another process takes over what `off` has handed over" do
    events.on("Late") { |event, _| (calls << [:parent, event]) and true }
    serve_events
    reader, writer = IO.pipe
    url = REDIS.url
    code = <<~RUBY
      require "seriatim"
      Seriatim.redis = #{url.inspect}
      Seriatim.events("shop").on("Late") { |event, _| puts event; $stdout.flush; true }
      server = Seriatim::Server.new.start
      puts "ready"
      $stdout.flush
      $stdin.read
      server.stop
    RUBY
    input, held = IO.pipe
    pid = Process.spawn(RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), "-e", code, in: input, out: writer)
    [input, writer].each(&:close)
    eventually { reader.gets == "ready\n" }
    events.off("Late")
    Array.new(20) { |id| events.enqueue("Late", id: id, event: id) }
    lines = reader.each_line.lazy.grep(/\A\d+\n\z/) # the log goes there, too
    expect(Timeout.timeout(60) { lines.first(20) }.map(&:to_i).sort).to eq([*0...20])
    expect(calls).to be_empty
    held.close
    Process.wait(pid)
  end

  it "R-EVENT-9: refuses `on` where a splitter fixed the shards of the server that runs" do
    Seriatim.build_splitter = -> { Seriatim.build_default_splitter }
    serve(worker("Other"))
    refused("build_splitter has fixed the shards") { events.on("Late") { true } }
    expect(events.off("Late")).to be(false)
  end

  it "R-EVENT-9: an `on` that a throw or the end of its thread breaks off has added no handler" do
    server = serve(worker("Other"))
    [-> { throw :left }, -> { Thread.exit }].each do |leave|
      server.define_singleton_method(:look_up_shards) { |_workers| leave.call }
      Thread.new { catch(:left) { events.on("Late") { true } } }.join
      expect(events.off("Late")).to be(false)
    end
  end

  it "R-EVENT-9: runs handlers that on_server_init adds, where a splitter fixed the shards, too" do
    Seriatim.on_server_init = -> { events.on("Late") { |event, _| (calls << event) and true } }
    Seriatim.build_splitter = -> { Seriatim.build_default_splitter }
    serve(worker("Other"))
    events.enqueue("Late", id: 1, event: "early")
    expect(call).to eq("early")
  end

  it "R-EVENT-9: a server of other queues does not run a handler that on_server_init adds" do
    Seriatim.on_server_init = -> { events.on("Late") { |event, _| (calls << event) and true } }
    other = worker("Other")
    server = serve(other, queues: ["Other"])
    events.enqueue("Late", id: 1, event: "early")
    other.perform_async([{ id: 1 }])
    runs(other, 1)
    expect([server.stats[:shards], calls.size]).to eq([5, 0])
  end

  it "R-EVENT-9: a server whose start ends while another thread adds a handler gets it once" do
    registered, added = Seriatim::Worker.of_events, nil
    add = lambda do
      added = Thread.new { events.on("Late") { |event, _| (calls << event) and true } }
      sleep 0.001 while registered.empty? && added.alive?
    end
    server = Seriatim::Server.new(workers: [worker("Other")])
    (@servers ||= []) << server
    server.define_singleton_method(:look_up_shards) { |workers| super(workers).tap { sleep 0.2 if running? } } # so that two would meet
    server.define_singleton_method(:serve_late) { [add.call, super()] }
    server.start
    expect(added.value).to be(events)
    expect(log).not_to include("is not run")
    events.enqueue("Late", id: 1, event: "late")
    expect(call).to eq("late")
  end

  it "has started nothing after a start that failed" do
    Seriatim.on_server_init = -> { events.on("Late") { true } }
    REDIS.call("RPUSH", "seriatim:{shop:Late}:layout", "a key of another type")
    server = Seriatim::Server.new(workers: [worker("Other")])
    expect { server.start }.to raise_error(Seriatim::Error)
    expect([server.running?, Seriatim::Server.running]).to eq([false, []])
  end

  it "R-EVENT-10: an event that is enqueued while its id runs comes afterwards" do
    entered, go_on = Thread::Queue.new, Thread::Queue.new
    events.on("Paid") do |event, _|
      entered << event
      go_on.pop
    end
    serve_events
    events.enqueue("Paid", id: 1, event: "A")
    expect(entered.pop).to eq("A")
    events.enqueue("Paid", id: 1, event: "B")
    go_on << true
    expect(entered.pop).to eq("B")
    go_on << true
    gone("Paid")
  end

  it "R-EVENT-11: keeps events for which nobody has a handler, with the settings of events" do
    events.enqueue("Sent", id: 1, event: "A")
    events.enqueue("Sent", id: 1, event: "B")
    expect(events.worker("Sent").metrics[:length]).to eq(1)
    serve(worker("Other"))
    events.on("Sent") { |event, _| (calls << event) and true }
    expect(call).to eq("B")
    expect(log).not_to include("changed its settings")
  end

  it "R-EVENT-17: its figures are in /metrics" do
    5.times { |id| events.enqueue("Paid", id: id, event: id, delay: id < 3 ? 600 : 0) }
    figures = get("/jobs/metrics", app: dashboard).body.scan(/^seriatim_(\w+)\{queue="shop:Paid"\} (\S+)$/).to_h
    expect(figures).to include("delayed" => "3", "ready" => "2", "retrying" => "0", "pushed_total" => "5")
  end

  it "R-EVENT-18: a server that has stopped leaves no connection" do
    connections = -> { REDIS.call("CLIENT", "LIST").scan("name=seriatim").size }
    events.on("Paid") { |event, _| (calls << event) and true }
    before = [connections.call, 1].max # other tests of this process may have left some
    levels = Array.new(10) do |id|
      server = serve_events(threads: 2)
      events.enqueue("Paid", id: id, event: id)
      expect(call).to eq(id)
      server.stop
      eventually { connections.call <= before }
      connections.call
    end
    expect(levels).to all(be_between(1, before)) # that of enqueue is among them
  end

  it "runs only the types of the queues that a server was told" do
    events.on("Paid") { |event, _| (calls << event) and true }
    events.on("Sent") { |event, _| (calls << event) and true }
    serve_events(queues: ["shop:Paid"])
    events.on("Late") { |event, _| (calls << event) and true }
    %w[Late Sent Paid].each { |type| events.enqueue(type, id: 1, event: type) }
    expect(call).to eq("Paid")
    expect(%w[Late Sent].map { |type| events.worker(type).metrics[:length] }).to eq([1, 1])
  end

  it "warns of other settings in Redis only where the type was handled" do
    %w[Alone Handled].each { |type| REDIS.call("HSET", "seriatim:{shop:#{type}}:settings", "max_retry_count", "3") }
    events.enqueue("Alone", id: 1, event: "A")
    expect(@log.string).not_to include("other settings")
    events.on("Handled") { true }
    events.enqueue("Handled", id: 1, event: "A")
    events.off("Handled")
    expect(@log.string).to include("queue \"shop:Handled\" has other settings in Redis than in the code")
    expect(@log.string).to include("max_retry_count: 3, in the code 69")
  end
end
