# frozen_string_literal: true

require_relative "spec_helper"

# A store with a thousand of everything, in which nobody works.
class Crowd
  MANY = 1000
  QUEUES = Array.new(MANY) { |number| format("Queue %04d", number) }.freeze
  FULL = QUEUES.first

  attr_reader :redis

  def initialize
    @redis = RedisServer.new
    Seriatim.redis = @redis.url
    @queues = QUEUES.to_h { |name| [name, worker(name)] }
    @queues.each_value { |queue| queue.perform_async([{ id: "waiting", payload: 1, delay: 3600 }]) }
    @queues[FULL].perform_async(Array.new(MANY) { |number| { id: format("id-%04d", number), payload: { n: number }, delay: 3600 + number } })
    nodes
  end

  def close = @redis.remove

  # Changes what a refresh shows, all over the table.
  def push(id)
    Seriatim.redis = @redis.url
    @queues.each_value.with_index { |queue, number| queue.perform_async([{ id: id, payload: 1, delay: 3600 }]) if number % 10 == 0 }
  end

  private

  def worker(name)
    Application.worker(name).tap { |queue| queue.shards_count = 1 }
  end

  def nodes
    MANY.times do |number|
      name = format("node-%04d", number)
      @redis.call("ZADD", "seriatim:{/nodes}:alive", ((Time.now.to_f + 3600) * 1000).to_i, name)
      @redis.call("HSET", "seriatim:{/nodes}:info", name, "ruby|machine #{number} seriatim 1.0.0")
    end
  end
end

# A thousand rows: the browser's own, so one mount will do.
RSpec.describe "a thousand rows", mount: House::MOUNTS.keys.first do
  MOST = 0.05 # seconds of the main thread a refresh

  before(:all) do
    @crowd = Crowd.new
    @mount = House::MOUNTS.values.first.new(@crowd.redis)
  end

  after(:all) { [@mount, @crowd].compact.each(&:close) }
  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  def site(kind = :open) = @mount.site(kind)

  # Comes back when the next answer to that path is drawn.
  REFRESH = <<~JS
    new Promise((done) => new PerformanceObserver((list, observer) => {
      if (!list.getEntries().some((entry) => entry.name.includes(arguments[0]))) return;
      observer.disconnect();
      setTimeout(() => requestAnimationFrame(() => setTimeout(() => done(true), 50)), 100);
    }).observe({ type: "resource" }))
  JS

  # @return [Array<Float>] seconds of work, of each refresh
  def refreshes(path, count: 8)
    browser.value(REFRESH, path)
    Array.new(count) do |number|
      yield number if block_given?
      begun = browser.worked
      browser.value(REFRESH, path)
      browser.worked - begun
    end
  end

  def quick(what, costs)
    RSpec.configuration.reporter.message("#{what}: #{costs.map { |seconds| format("%.1f", seconds * 1000) }.join(" ")} ms of the main thread a refresh")
    expect(costs.min).to be < MOST
  end

  it "of queues: a refresh takes less than 50 ms" do
    open("")
    see("1,000 queues")
    quick("1,000 queues", refreshes("api/web/dashboard") { |number| @crowd.push("more-#{number}") })
  end

  it "of nodes" do
    open("nodes")
    see("1000 living nodes")
    quick("1,000 nodes", refreshes("api/v1/nodes"))
  end

  it "of ids, a hundred of them on a page" do
    open("enqueued", queue: Crowd::FULL)
    see("1 to 100 of 1,001")
    quick("a page of 1,001 ids", refreshes("/records"))
  end
end
