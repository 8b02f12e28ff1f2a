# frozen_string_literal: true

require_relative "spec_helper"

# Pushes of several workers that are written together.
RSpec.describe "Seriatim.pipelined" do
  let(:orders) { worker("Orders") }
  let(:mails) { worker("Mails") }

  def waiting(of) = of.queries.range_by_id("-", "+", limit: 1000).map { |record| record[:id] }

  # Scripts that Redis has run.
  def scripts = REDIS.call("INFO", "commandstats").scan(/cmdstat_eval(?:sha)?:calls=(\d+)/).flatten.sum(&:to_i)

  def pushed(of, id) = of.perform_async([{ id: id }])

  it "R-PIPE-5: writes nothing before the block ends, and then all; the futures have the results" do
    futures = []
    results = Seriatim.pipelined do
      futures << pushed(orders, 1) << pushed(mails, "m") << pushed(orders, 1) << orders.perform_async([{ id: 1, on_waiting: :reject }, { id: 2 }])
      expect(orders.metrics[:length]).to eq(0)
      %i[value added].each { |field| expect { futures.first.public_send(field) }.to raise_error(Seriatim::Invalid, /when the block of pipelined has ended/) }
    end
    expect(futures.last.refused).to eq(1)
    expect(waiting(orders)).to eq(%w[1 2])
    expect(waiting(mails)).to eq(%w[m])
    expect(results).to eq(futures.map(&:value))
    expect(results.map { |result| [result.added, result.folded, result.refused_at] }).to eq([[1, 0, []], [1, 0, []], [0, 1, []], [1, 0, [0]]])
  end

  it "R-PIPE-1: sends the pushes of a queue as one" do
    orders.shards_count = mails.shards_count = 2
    Seriatim.pipelined { [orders, mails].each { |queue| pushed(queue, "first") } }
    before = scripts
    Seriatim.pipelined { 200.times { |id| pushed([orders, mails][id % 2], id) } }
    expect(scripts - before).to eq(4)
    expect(orders.metrics[:length] + mails.metrics[:length]).to eq(202)
  end

  it "R-PIPE-5: keeps what was given: a later change of id, payload or context is not pushed" do
    id = +"a"
    payload = { "n" => [1] }
    context = { "tenant" => +"t" }
    Seriatim.pipelined do
      orders.perform_async([{ id: id, payload: payload, context: context }])
      id << "!"
      payload["n"] << 2
      context["tenant"] << "!"
    end
    delivery = Seriatim.pop([orders], wait: 0)
    expect([delivery.id, delivery.payloads, delivery.contexts]).to eq(["a", [{ "n" => [1] }], [{ "tenant" => "t" }]])
  end

  it "R-PIPE-2: checks each push at its call; one that is refused leaves the others alone" do
    expect(Seriatim.pipelined do
      pushed(orders, 1)
      expect { orders.perform_async([{ id: 2 }, { id: 3, payload: "x" * 2_000_000 }]) }.to raise_error(Seriatim::Invalid, /jobs\[1\]: payload is 2000002 bytes/)
      expect { orders.perform_async([{ id: 2, perform_in: 60 }]) }.to raise_error(Seriatim::Invalid, /1970/)
      expect { orders.perform_async([{ idd: 2 }]) }.to raise_error(Seriatim::Invalid, /unknown key/)
    end.map(&:added)).to eq([1])
    expect(waiting(orders)).to eq(%w[1])
  end

  it "R-PIPE-6: writes nothing when an exception leaves the block" do
    future = nil
    expect { Seriatim.pipelined { future = pushed(orders, 1) and raise "stop" } }.to raise_error("stop")
    expect { Seriatim.pipelined { pushed(orders, 2) and exit } }.to raise_error(SystemExit)
    expect { Seriatim.pipelined { pushed(orders, 3) and throw(:nowhere) } }.to raise_error(UncaughtThrowError)
    expect { future.value }.to raise_error(Seriatim::Invalid, /only if no exception ended it/)
    expect(orders.metrics[:length]).to eq(0)
    expect(pushed(orders, 4).added).to eq(1)
  end

  it "R-PIPE-6: writes nothing when the thread is killed, or its time is over" do
    thread = Thread.new { Seriatim.pipelined { pushed(orders, 1) and sleep } }
    eventually { thread.stop? }
    thread.kill.join
    expect { Timeout.timeout(0.05, IOError) { Seriatim.pipelined { pushed(orders, 2) and sleep } } }.to raise_error(IOError)
    expect(orders.metrics[:length]).to eq(0)
  end

  def returning(worker, id)
    Seriatim.pipelined { pushed(worker, id) and return :returned }
  end

  it "R-PIPE-6: writes what return, break, throw or next leaves behind" do
    expect(returning(orders, 1)).to eq(:returned)
    expect(Seriatim.pipelined { pushed(orders, 2) and break :broken }).to eq(:broken)
    expect(catch(:done) { Seriatim.pipelined { pushed(orders, 3) and throw(:done, :thrown) } }).to eq(:thrown)
    expect(Seriatim.pipelined { pushed(orders, 4) and next }.map(&:added)).to eq([1])
    expect([1].each { Seriatim.pipelined { Seriatim.pipelined { pushed(orders, 5) and break } and raise "not here" } }).to eq([1])
    expect(waiting(orders)).to eq(%w[1 2 3 4 5])
  end

  it "R-PIPE-6: writes also where an exception or a kill was there before the block" do
    begin
      raise "earlier"
    rescue RuntimeError
      returning(orders, 1)
    end
    expect { begin; raise "under way"; ensure; returning(orders, 2); end }.to raise_error("under way")
    Thread.new { begin; Thread.current.kill; ensure; Seriatim.pipelined { pushed(orders, 3) }; end }.join
    expect(waiting(orders)).to eq(%w[1 2 3])
  end

  it "R-PIPE-6: raises what became of the pushes in place of a return, a break and a throw" do
    orders.shards_count = 1
    REDIS.call("SET", "seriatim:{Orders/0}:jobs", "x")
    [-> { returning(orders, 1) }, -> { Seriatim.pipelined { pushed(orders, 1) and break } },
     -> { catch(:done) { Seriatim.pipelined { pushed(orders, 1) and throw(:done) } } }].each do |left|
      expect(&left).to raise_error(Seriatim::RedisError, /WRONGTYPE/)
    end
    expect(Seriatim.pipelined { mails.perform_async([{ id: 1 }]) }.map(&:added)).to eq([1])
  end

  it "R-PIPE-7: a block inside of a block joins it" do
    Seriatim.pipelined do
      expect(Seriatim.pipelined { pushed(orders, 1) }).to be_nil
      expect(orders.metrics[:length]).to eq(0)
    end
    expect(waiting(orders)).to eq(%w[1])
  end

  it "R-PIPE-8: other threads and fibers push at once" do
    Seriatim.pipelined do
      expect(Thread.new { pushed(orders, "thread") }.value.added).to eq(1)
      expect(Fiber.new { pushed(orders, "fiber") }.resume.added).to eq(1)
      pushed(orders, "own")
      expect(waiting(orders)).to eq(%w[fiber thread])
    end
    expect(waiting(orders)).to eq(%w[fiber own thread])
  end

  it "R-PIPE-8: a child of fork pushes at once, and leaves the block to its parent" do
    Seriatim.pipelined do
      pushed(orders, "parent")
      child = fork do
        pushed(orders, "child")
        exit!(orders.metrics[:length])
      end
      Process.wait(child)
      expect($?.exitstatus).to eq(1) # rubocop:disable Style/SpecialGlobalVars
    end
    expect(waiting(orders)).to eq(%w[child parent])
    reader, writer = IO.pipe
    child = nil
    Seriatim.pipelined do
      pushed(orders, "once")
      child = fork
    end
    writer.write(Seriatim.pipelined { nil }.inspect) && exit!(0) unless child
    Process.wait(child)
    writer.close
    expect(reader.read).to eq("[]")
    expect(waiting(orders)).to eq(%w[child once parent])
  end

  it "R-PIPE-1: calls the client middlewares of each push, which may change or drop it" do
    seen = []
    Seriatim.client_middlewares << lambda do |worker, jobs, &block|
      seen << [worker.queue_name, jobs.map { |job| job[:id] }]
      block.call unless jobs.first[:id] == "dropped"
    end
    results = Seriatim.pipelined { [[orders, 1], [mails, "dropped"]].each { |queue, id| pushed(queue, id) } }
    expect(seen).to eq([["Orders", [1]], ["Mails", ["dropped"]]])
    expect(results.map(&:added)).to eq([1])
    expect(mails.metrics[:length]).to eq(0)
  end

  it "R-PIPE-9: the strictest options hold for all, and handles are those of the push that asked" do
    futures = []
    expect do
      Seriatim.pipelined do
        futures << pushed(orders, 1)
        futures << mails.perform_async([{ id: 1 }, { id: 1 }], handle: true)
        futures << orders.perform_async([{ id: 2 }], wait_replicas: 1, wait_timeout: 0.2)
      end
    end.to raise_error(Seriatim::NotReplicated, /0 of 1 replicas/) { |error| expect(error.result.map(&:added)).to eq([1, 1, 1]) }
    futures.each { |future| expect { future.value }.to raise_error(Seriatim::NotReplicated) { |error| expect(error.result.added).to eq(1) } }
    handles = Seriatim.pipelined { pushed(orders, 7) && mails.perform_async([{ id: 7 }], handle: true) }.map(&:handles)
    expect(handles.map(&:size)).to eq([0, 1])
    expect(mails.actions.cancel(handles.last.first)).to be(true)
  end

  it "F4, R-PIPE-9: the shortest push_timeout holds, from the end of the block; the error names the queue" do
    future = nil
    Process.kill(:STOP, REDIS.pid)
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    expect do
      Seriatim.pipelined do
        pushed(orders, 1)
        future = mails.perform_async([{ id: 1 }], push_timeout: 0.4)
      end
    end.to raise_error(Seriatim::Error)
    expect(Process.clock_gettime(Process::CLOCK_MONOTONIC) - before).to be_between(0.35, 20)
    expect { future.value }.to raise_error(Seriatim::Error)
  ensure
    Process.kill(:CONT, REDIS.pid)
  end

  it "R-PIPE-3: a queue that fails leaves the others alone; the error names it, and each future tells its own outcome" do
    orders.shards_count = mails.shards_count = 1
    REDIS.call("SET", "seriatim:{Orders/0}:jobs", "x")
    futures = []
    expect { Seriatim.pipelined { futures << pushed(orders, 1) << pushed(mails, 1) } }.to raise_error(Seriatim::RedisError, /queue Orders: .*WRONGTYPE/)
    expect { futures.first.value }.to raise_error(Seriatim::RedisError, /WRONGTYPE/)
    expect(futures.last.value.added).to eq(1)
  end

  it "R-PIPE-5: without a push does nothing, and needs a block" do
    before = scripts
    expect(Seriatim.pipelined { orders.perform_async([]) }.map(&:added)).to eq([0])
    expect(Seriatim.pipelined { nil }).to eq([])
    expect(scripts).to eq(before)
    expect { Seriatim.pipelined }.to raise_error(ArgumentError, /needs a block/)
  end

  it "R-PIPE-10: in the test modes pushes run, or are kept, when the block ends" do
    ran = []
    orders.define_singleton_method(:perform) { |payloads_by_id| ran.concat(payloads_by_id.keys) }
    Seriatim.testing!(:fake) do
      Seriatim.pipelined do
        pushed(orders, 1)
        expect(orders.jobs).to eq([])
      end
      expect(orders.jobs.map { |job| job[:id] }).to eq(["1"])
    end
    Seriatim.testing!(:inline) do
      Seriatim.pipelined { pushed(orders, 2).then { expect(ran).to eq([]) } }
      expect(ran).to eq(["2"])
    end
  end
end
