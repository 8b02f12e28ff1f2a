# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "the native objects", :core do
  native = Seriatim.module_eval { const_get(:Native) }

  it "work under GC.stress, GC.compact and GC.verify_compaction_references" do
    Dir.mktmpdir do |folder|
      output, status = Open3.capture2e(*Command::RUBY, File.join(__dir__, "support/collected.rb"), REDIS.url, folder)
      expect([status.exitstatus, output]).to match([0, /\Acollected \d{3,} times, moved/])
    end
  end

  it "refuse use before they are made, and after they are closed" do
    expect { native::Link.allocate.url }.to raise_error(Seriatim::Closed)
    expect { native::Runner.allocate.start }.to raise_error(Seriatim::Closed)
    expect { native::PrivateRedis.allocate.url }.to raise_error(Seriatim::Closed)
    expect { native::Delivery.new }.to raise_error(TypeError)
    link = native::Link.new(REDIS.url, "ns", nil, 0, nil)
    link.close
    expect { link.layout(0, nil) }.to raise_error(Seriatim::Closed)
    expect { link.push(0, [], nil, 0, 1, 10) }.to raise_error(Seriatim::Closed)
  end

  it "refuse arguments of other kinds without harm" do
    link = native::Link.new(REDIS.url, "ns", nil, 0, nil)
    expect { link.queue({}) }.to raise_error(ArgumentError)
    expect { link.queue([]) }.to raise_error(TypeError)
    expect { link.queue(5) }.to raise_error(TypeError)
    expect { link.push(99, [], nil, 0, 1, 10) }.to raise_error(ArgumentError)
    queue = link.queue(worker("q").queue_settings)
    expect { link.push(queue, [[1]], nil, 0, 1, 10) }.to raise_error(ArgumentError)
    expect { link.push(queue, [{ id: 1 }], [2], 0, 1, 10) }.to raise_error(TypeError)
    expect { link.query(queue, "unknown", false, nil, nil, 10, -1, nil, nil) }.to raise_error(ArgumentError)
    expect { native::Link.new("http://x", "ns", nil, 0, nil) }.to raise_error(ArgumentError)
    expect(link.push(queue, [{ id: "id" }], ["payload"], 0, 1, 10)).to eq([1, 0, [], nil, nil, 0, 0, []])
  end

  it "are freed with what they hold" do
    before = Dir.children("/proc/self/fd").size
    20.times do
      native::Link.new(REDIS.url, "ns", nil, 0, nil).tap { |link| link.layout(link.queue(worker("q").queue_settings), nil) }
      native::Runner.new(REDIS.url, "ns", nil, "node", "", 1000, 1000, 1, 0)
    end
    3.times { GC.start }
    expect(Dir.children("/proc/self/fd").size).to be < before + 10
  end

  def started(native, queue)
    native::Runner.new(REDIS.url, Seriatim.namespace, nil, "node-#{queue.queue_name}", "", 10_000, 100, 2, 0).tap do |runner|
      runner.worker(queue.queue_settings)
      runner.start
    end
  end

  # In a thread of its own, whose stack keeps no delivery alive.
  def in_thread(&) = Thread.new(&).value

  it "give back what an unsettled delivery held, once that is collected" do
    queue = worker("dropped", shards_count: 1)
    queue.perform_async([{ id: 1 }, { id: 2 }])
    runner = started(native, queue)
    2.times do
      in_thread { eventually { runner.pulse || runner.take(0) } && nil }
      expect(runner.stats[:running]).to be > 0
      eventually { runner.pulse || GC.start || runner.stats[:running].zero? }
    end
    expect(eventually { runner.pulse || runner.take(0) }).to be_a(native::Delivery)
  ensure
    runner.close
  end

  it "F23 end the waits of threads when a runner is closed, and close what these waited for" do
    before = Dir.children("/proc/self/fd").size
    runner = started(native, worker("waited", shards_count: 1))
    threads = Array.new(3) { Thread.new { loop { runner.take(0) || runner.wait(0, nil) } } }
    threads.each { |thread| thread.report_on_exception = false }
    eventually { threads.all?(&:stop?) }
    runner.close
    threads.each { |thread| expect { thread.join(60) || raise("it waits on") }.to raise_error(Seriatim::Closed) }
    expect(Dir.children("/proc/self/fd").size).to be <= before
  end

  it "compute splits, shards and back-off as the core does" do
    expect(native.split(7, 2, 1, 2)).to eq([[1, 5], [3]])
    expect(native.split(0, 1, 0, 3)).to eq([])
    expect(native.shard_of("9", 5)).to eq(4)
    expect(native.back_off(0)).to be_a(Float).and be_between(15, 44)
    expect(native.back_off(10**9)).to eq(3_155_760_000)
    expect { native.shard_of(9, 5) }.to raise_error(TypeError)
    expect { native.split("7", 2, 1, 2) }.to raise_error(TypeError)
    expect { native.back_off(nil) }.to raise_error(TypeError)
  end

  it "have the gem's version" do
    expect(native.version).to eq(Seriatim::VERSION)
  end
end
