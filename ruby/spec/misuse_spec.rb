# frozen_string_literal: true

require_relative "spec_helper"

# What a server is given wrongly is refused by name, before it has asked Redis for anything.
RSpec.describe "misuse of a server's settings" do
  def refused(text, *workers, **options)
    workers = [worker] if workers.empty?
    expect { serve(*workers, **options) }.to raise_error(Seriatim::Invalid, text)
    expect(REDIS.call("KEYS", "*:state")).to be_empty
    expect(Thread.list.map(&:name).grep(/\Aseriatim/)).to be_empty
  end

  {
    "5" => -> { 5 }, "nil" => -> {}, "a class" => -> { String }
  }.each do |name, builder|
    it "refuses a build_scheduler that gives #{name}" do
      Seriatim.build_scheduler = builder
      refused(/\Abuild_scheduler must give one of Seriatim's schedulers or a callable .*, not /)
    end

    it "refuses a build_splitter that gives #{name}" do
      Seriatim.build_splitter = builder
      refused(/\Abuild_splitter must give a callable .*, not /)
      expect(REDIS.call("KEYS", "*")).to be_empty
    end
  end

  {
    "a number" => ->(_) { 5 }, "a list of numbers" => ->(_) { [5] }, "numbers in a group" => ->(_) { [[5]] },
    "shards without groups" => ->(shards) { shards }, "a text" => ->(_) { "all" },
    "a shard that is none" => ->(shards) { [[Seriatim::Shard.new(shards.first.worker, 99)]] }
  }.each do |name, splitter|
    it "refuses a splitter that gives #{name}" do
      Seriatim.build_splitter = -> { splitter }
      refused(/\Abuild_splitter: the splitter must give a list of groups, each a list of shards .*, not /)
    end
  end

  it "refuses a splitter that gives no shard, or one of them twice" do
    Seriatim.build_splitter = -> { ->(_) { [[]] } }
    refused("build_splitter: the splitter gives this node no shard")
    Seriatim.build_splitter = -> { ->(shards) { [shards.first(2), shards.drop(1)] } }
    refused("build_splitter: the splitter gives shard 1 of queue \"Recorder\" twice")
  end

  it "refuses the scheduler of any group" do
    schedulers = [Seriatim.build_lag_scheduler, 5]
    Seriatim.build_scheduler = -> { schedulers.shift }
    Seriatim.build_splitter = -> { ->(shards) { shards.each_slice(1).to_a } }
    refused(/\Abuild_scheduler must give/)
  end

  it "takes a splitter that changes its list" do
    Seriatim.build_splitter = -> { ->(shards) { [shards.shift(2), shards.shift(9)] } }
    recorder = worker(shards_count: 4)
    recorder.perform_async(Array.new(8) { |i| { id: i } })
    serve(recorder)
    runs(recorder, 8)
  end

  %w[server_middlewares client_middlewares].each do |field|
    it "refuses #{field} of which one cannot be called, when they are set and when a server starts" do
      expect { Seriatim.public_send(:"#{field}=", [-> {}, 5]) }.to raise_error(Seriatim::Invalid, "#{field}[1] must be callable, not 5 (Integer)")
      Seriatim.public_send(field) << 5
      refused("#{field}[0] must be callable, not 5 (Integer)")
    end
  end

  it "refuses a push through a client middleware that cannot be called" do
    recorder = worker
    Seriatim.client_middlewares << 5
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, "client_middlewares[0] must be callable, not 5 (Integer)")
  end

  it "fails jobs by name when a server middleware that cannot be called is added while it runs" do
    recorder = worker(max_retry_count: 0)
    serve(recorder)
    Seriatim.server_middlewares << 5
    recorder.perform_async([{ id: 1 }])
    eventually { recorder.metrics[:morgue_length] == 1 }
    expect(recorder.queries.morgue_fetch([1]).first[:error]).to eq("server_middlewares[0] must be callable, not 5 (Integer)")
  end

  describe "a worker that cannot run jobs" do
    {
      "has no public perform" => Module.new { extend Seriatim::Worker },
      "defines perform as an instance method" => Class.new { extend Seriatim::Worker; def perform(payloads) = payloads }
    }.each do |wrong, made|
      it "is refused when it #{wrong}" do
        stub_const("MisusedWorker", made)
        refused(/\Aworkers: MisusedWorker #{wrong}; write `def self.perform\(payloads_by_id\)` in it/, made)
      end
    end

    it "is refused when its perform is private" do
      stub_const("MisusedWorker", Module.new { extend Seriatim::Worker; def self.perform(payloads) = payloads; private_class_method :perform })
      refused(/\Aworkers: MisusedWorker has no public perform/, MisusedWorker)
    end

    it "may be pushed to, and left out by the name of a queue" do
      pushes = Module.new { extend Seriatim::Worker; self.queue_name = "pushes" }
      pushes.perform_async([{ id: 1 }])
      expect(serve(pushes, worker, queues: ["Recorder"])).to be_running
    end
  end

  it "refuses queues that are not a list of names, and threads that are not a number" do
    refused("queues must be an Array, not \"Recorder\" (String)", queues: "Recorder")
    refused("queues[1] must be a text of 1 to 512 bytes, not 5 (Integer)", queues: ["Recorder", 5])
    refused(/\Athreads must be an Integer from 1 to 10000, not false/, threads: false)
    expect(serve(worker, worker("Other"), queues: [:Recorder])).to satisfy { |server| server.runs?("Recorder") && !server.runs?("Other") }
  end

  describe "the workers that a server chooses itself" do
    before { allow(Seriatim::Worker).to receive(:all).and_return([]) }

    let(:base) { stub_const("BaseWorker", Class.new { extend Seriatim::Worker }) }

    def runs?(*queues) = Seriatim::Server.new.then { |server| queues.map { |queue| server.runs?(queue) } }

    it "are subclasses, too, and not a base class without perform" do
      stub_const("OrderWorker", Class.new(base) { def self.perform(payloads) = payloads })
      expect(runs?("BaseWorker", "OrderWorker")).to eq([false, true])
      base.define_singleton_method(:perform) { |payloads| payloads }
      stub_const("MailWorker", Class.new(base))
      expect(runs?("BaseWorker", "OrderWorker", "MailWorker")).to eq([true, true, true])
    end

    it "must have a perform where nothing is derived from them, and where they are named" do
      expect(base.name).to eq("BaseWorker")
      expect { Seriatim::Server.new }.to raise_error(Seriatim::ApplicationError, /\Aworkers: BaseWorker has no public perform/)
      stub_const("OrderWorker", Class.new(base) { def self.perform(payloads) = payloads })
      expect { Seriatim::Server.new(workers: [base]) }.to raise_error(Seriatim::ApplicationError, /\Aworkers: BaseWorker has no public perform/)
    end

    it "are told of a perform that their base class defines as an instance method" do
      base.class_eval { def perform(payloads) = payloads }
      stub_const("OrderWorker", Class.new(base))
      expect { Seriatim::Server.new }.to raise_error(Seriatim::ApplicationError, /\Aworkers: OrderWorker defines perform as an instance method/)
    end

    it "are the latest of a name, and those of a class with a name that can be looked up" do
      replaced = stub_const("OrderWorker", Class.new(base) { def self.perform(payloads) = payloads })
      Module.new.const_set(:HiddenWorker, Class.new(base))
      stub_const("OrderWorker", Class.new(base) { def self.perform(payloads) = payloads })
      expect(Seriatim::Server.new.instance_variable_get(:@workers)).to eq([OrderWorker])
      expect(replaced).not_to be(OrderWorker)
    end
  end

  it "refuses a timeout of `stop` that is no number of seconds, and the server goes on" do
    recorder = worker("Stopped", shards_count: 1)
    server = serve(recorder, threads: 1)
    ["5", nil, -1, Float::NAN, 86_401].each do |timeout|
      expect { server.stop(timeout) }.to raise_error(Seriatim::Invalid, /\Atimeout must be a number of seconds from 0\.0 to 86400\.0, not /)
    end
    recorder.perform_async([{ id: 1 }])
    expect(runs(recorder).size).to eq(1)
    expect(server.stop(30)).to be(true)
  end

  it "starts as many threads as the server was told, whatever splits the shards" do
    Seriatim.threads_per_node = 5
    [-> { Seriatim.build_default_splitter }, -> { Seriatim.build_by_node_splitter(1, 0) },
     -> { ->(shards) { Seriatim.build_default_splitter.call(shards) } }].each do |builder|
      Seriatim.build_splitter = builder
      serve(worker(shards_count: 8), threads: 2).stop
    end
    expect(log.scan(/with (\d+) threads/).flatten).to eq(%w[2 2 2])
  end
end
