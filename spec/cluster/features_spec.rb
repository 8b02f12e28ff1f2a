# frozen_string_literal: true

require_relative "../crash/kit/web_queue"
require_relative "../../ruby/spec/support/lowkiq_writer"
require_relative "../../ruby/spec/support/outbox_database"
require "seriatim/outbox"
require_relative "cluster_load"

# What is more than a push and a run: slots move, or masters change, between two steps of it.
RSpec.describe "Features on a Redis Cluster" do
  include ClusterLoad

  ORDERS = { shards_count: 12, fold: "list" }.freeze
  IDS = (1..40).map { |number| "id#{number}" }.freeze

  before(:context) { @setup = ClusterSetup.new }
  after(:context) { @setup&.remove }

  before do
    @setup.flush
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: @setup)
    kit.queue("Orders", **ORDERS)
  end

  def orders = kit["Orders"]

  # Gives each slot to the next master, so that they lie on as many as before.
  def move_slots(slots = slots("Orders", 12))
    slots.uniq.each do |slot|
      masters = cluster.masters
      cluster.move_slot(slot, masters[(masters.index(cluster.master_of(slot)) + 1) % masters.size])
    end
  end

  # The replica of a master takes over.
  def fail_over
    make_moves_safe
    cluster.failover(cluster.masters.first)
    cluster.await_whole # patient again: no other failover
  end

  # Yields 1 while slots move, then 2 while a master is replaced.
  def while_masters_change
    %i[move_slots fail_over].each.with_index(1) do |change, turn|
      changing = Thread.new { send(change) }
      yield turn
      changing.value
    end
  end

  def expect_all_masters(slots) = expect(slots.map { |slot| cluster.master_of(slot) }.uniq.size).to eq(3)

  # The payloads of each id, as pops give them.
  def popped
    payloads = Hash.new { |all, id| all[id] = [] }
    while (delivery = Seriatim.pop([orders], wait: 0, ttr: 60))
      payloads[delivery.id].concat(delivery.payloads)
      delivery.ack
    end
    payloads
  end

  def expect_nothing_left = expect(kit.leftovers).to eq([])

  # ---- two-phase commit sets

  NAMES = ["x", "{a}b", "a{b}c", "{}abc", "abc{}", "a}b", "", "k" * 1000].freeze

  it "R-CLUSTER-10 sets of any name lie on all masters, and work in each language when their slots have moved" do
    with_agents { |_, agent| agent }
    agent_of.each_value do |agent|
      NAMES.each { |name| expect(agent.ick("ickadd", name, 1, "a", 2, "b", 3, "c")).to eq([3, 0]) }
      NAMES.each { |name| expect(agent.ick("ickreserve", name, 2)).to eq([["a", 1], ["b", 2]]) }
      slots = cluster.keys.select { |key| key.include?("{/ick/") }.map { |key| cluster.slot_of(key) }
      expect(slots.uniq.size).to eq(NAMES.size)
      expect_all_masters(slots)
      move_slots(slots)
      NAMES.each { |name| expect(agent.ick("ickexchange", name, 3, *(agent.language == "lua" ? [["a"]] : ["a"]))).to eq([["b", 2], ["c", 3]]) }
      NAMES.each { |name| expect(agent.ick("ickdel", name)).to eq(2) }
    end
  end

  # ---- events

  def start_events(language)
    commands = Language::ALL.fetch(language)
    app = File.expand_path("../crash/events/app.#{{ "ruby" => "rb", "python" => "py", "lua" => "lua" }.fetch(language)}", __dir__)
    variables = { "REDIS_URL" => redis.url, "NAME" => language, "TRACE" => File.join(kit.folder, "trace"), "GATE" => "/dev/null" }
    kit.start([*commands.server[0..-2], app], { **commands.variables, **variables }).tap(&:wait_until_started)
  end

  # What the handlers noted: process, event.
  def traced = File.exist?(path = File.join(kit.folder, "trace")) ? File.readlines(path, chomp: true).map(&:split).filter_map { |process, step, event| [process, event] if step == "ran" } : []

  it "R-CLUSTER-10 events of three types are handled once each, by processes in three languages, when masters have changed" do
    processes = AllLanguages::LANGUAGES.map { |language| start_events(language) }
    events = Seriatim.events("shop")
    types = %w[One Two Three]
    expected = types.product(IDS).map do |type, id|
      events.enqueue(type, id: id, event: id, delay: 1, context: { "of" => "context" })
      "#{type}.#{id}.context"
    end
    move_slots(types.flat_map { |type| slots("shop:#{type}", 5) })
    fail_over
    kit.eventually { traced.size >= expected.size }
    expect(traced.map(&:last)).to match_array(expected)
    expect(processes.map(&:stop)).to all(eq(0))
    expect(types.flat_map { |type| events.worker(type).actions.check[:findings] }).to eq([])
  end

  # ---- the outbox

  it "R-CLUSTER-10 an outbox pushes what was committed, once, in order, while masters change" do
    OutboxDatabase.open("SQLite", kit.folder)
    relay = Seriatim::Outbox.const_get(:Relay).new
    expected = Hash.new { |all, id| all[id] = [] }
    while_masters_change do |turn|
      ActiveRecord::Base.transaction do
        orders.perform_async_in_transaction(IDS.map { |id| { id: id, payload: turn } })
        IDS.each { |id| expected[id] << turn }
      end
      relay.turn while Seriatim::Outbox.metrics[:waiting].positive?
    end
    expect(popped).to eq(expected)
    expect_nothing_left
  ensure
    ActiveRecord::Base.connection_pool.disconnect!
  end

  # ---- imports

  it "R-CLUSTER-10 a queue of Lowkiq is imported while slots move" do
    source = RedisServer.new
    old = LowkiqWriter.new(source, "Orders")
    IDS.each { |id| old.wait(id, { 1 => 1, 2 => 2 }) }
    kit.queue("Orders", **ORDERS, codec: :marshal).perform_async([{ id: "first", payload: 0 }])
    moving = Thread.new { move_slots }
    said, status = Open3.capture2e({ "REDIS_URL" => redis.url }, *Language::RUBY, "#{Language::ROOT}/ruby/exe/seriatim", "import", "lowkiq", "Orders", "--from", source.url)
    moving.value
    expect(status.exitstatus).to eq(0), said
    expect(old.keys).to eq([])
    expect(popped).to eq({ "first" => [0], **IDS.to_h { |id| [id, [1, 2]] } })
  ensure
    source&.remove
  end

  # ---- pushes

  it "R-CLUSTER-10 a pipeline pushes to several queues on all masters, and waits for the replicas of each" do
    mails = kit.queue("Mails", **ORDERS)
    expect_all_masters(slots("Orders", 12))
    expect_all_masters(slots("Mails", 12))
    while_masters_change do |turn|
      results = Seriatim.pipelined { IDS.each { |id| [orders, mails].each { |queue| queue.perform_async([{ id: id, payload: turn }], wait_replicas: 1, wait_timeout: 10) } } }
      expect(results.map { |result| result.added + result.folded }).to all(eq(1))
    end
    expect(mails.metrics[:length]).to eq(IDS.size)
    expect(popped).to eq(IDS.to_h { |id| [id, [1, 2]] })
  end

  it "R-CLUSTER-10 scheduled payloads come, are cancelled and rescheduled by their handles when masters have changed" do
    due = Time.now.to_f + 3600
    handles = orders.perform_async(IDS.flat_map { |id| [1, 2, 3].map { |number| { id: id, payload: number, deliver_at: due } } }).handles
    move_slots
    handles.each_slice(3) do |cancelled, _, later|
      expect(orders.actions.cancel(cancelled)).to be(true)
      expect(orders.actions.reschedule(later, Time.now.to_f)).to be(true)
    end
    fail_over
    expect(orders.queries.range_by_deliver_at(due - 1, "+inf", limit: 1000).map { |record| record[:id] }).to match_array(IDS)
    expect(popped).to eq(IDS.to_h { |id| [id, [3]] })
    handles.each_slice(3) { |cancelled, kept, _| expect([cancelled, kept].map { |handle| orders.actions.cancel(handle) }).to eq([false, true]) }
    expect_nothing_left
  end

  # ---- pops

  it "R-CLUSTER-10 what was popped from all masters is acknowledged, failed and released when masters have changed" do
    kit.push("Orders", IDS, 1)
    deliveries = Array.new(IDS.size) { Seriatim.pop([orders], wait: 5, ttr: 600) }
    expect(deliveries.map(&:id)).to match_array(IDS)
    move_slots
    deliveries.each_slice(4) do |done, failed, released, extended|
      expect(done.ack).to be(true)
      failed.fail("not now", retry_in: 3600)
      released.release
      extended.extend(600)
    end
    fail_over
    again = deliveries.each_slice(4).map { |of| of[2].id }
    expect(popped.keys).to match_array(again)
    deliveries.each_slice(4) { |of| expect(of[3].ack).to be(true) }
    expect(orders.metrics.values_at(:length, :busy, :retries)).to eq([10, 0, 10])
    expect { deliveries.first.ack }.to raise_error(Seriatim::Stale)
  end

  it "R-CLUSTER-10 a pop that waits is woken by a push to any master" do
    orders.perform_async([{ id: "first" }])
    expect(popped.keys).to eq(["first"])
    IDS.first(12).each do |id|
      popping = Thread.new { Seriatim.pop([orders], wait: 30, ttr: 60) }
      kit.eventually { cluster.nodes.sum { |node| node.call("CLIENT", "LIST", "TYPE", "pubsub").lines.size }.positive? }
      orders.perform_async([{ id: id }])
      taken = seconds_of { expect(popping.value.tap(&:ack).id).to eq(id) }
      expect(taken).to be < 20
    end
  end

  it "R-CLUSTER-10 HTTP consumers of several hosts go on with each other's deliveries when masters have changed" do
    kit.push("Orders", IDS, 1)
    ports = %w[ruby python].map { |host| RedisServer.free_port.tap { |port| kit.web(host, port) } }
    consumers = ports.map { |port| WebQueue.new("http://127.0.0.1:#{port}", "Orders") }
    kit.eventually { ports.all? { |port| Net::HTTP.get(URI("http://127.0.0.1:#{port}/livez")) rescue nil } } # rubocop:disable Style/RescueModifier
    deliveries = IDS.each_index.map { |at| consumers[at % 2].pop(wait: 5, ttr: 600, max: 3) }
    expect(deliveries.map(&:id)).to match_array(IDS)
    move_slots
    fail_over
    deliveries.each_with_index { |delivery, at| consumers[(at + 1) % 2].report("ack", delivery.token) }
    expect(orders.metrics.values_at(:length, :busy)).to eq([0, 0])
    expect_nothing_left
  end
end
