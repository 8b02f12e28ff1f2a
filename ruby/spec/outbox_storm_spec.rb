# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/outbox_storm"

# SOAK=1: 1,000 kills for each database.
RSpec.describe "An outbox whose processes are killed", limit: 3600 do
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { ActiveRecord::Base.connection_pool.disconnect! if @config }
  after { @redis&.remove }

  def kills = ENV["SOAK"] ? 1000 : 20

  # The payloads in the order of their delivery, by id. A query would give the first 1,000 of an id.
  def delivered(orders)
    payloads = Hash.new { |hash, id| hash[id] = [] }
    while (delivery = Seriatim.pop(orders, wait: 0, ttr: 600))
      payloads[delivery.id].concat(delivery.payloads)
      delivery.ack
    end
    payloads
  end

  # Of each id what was committed and not delivered, what was delivered more often than it was committed, and the first difference.
  def differences(committed, pushed)
    (committed.keys | pushed.keys).reject { |id| committed[id] == pushed[id] }.map do |id|
      was, is = [committed, pushed].map { |lists| lists.fetch(id, []) }
      { id: id, lost: (was - is).first(3), added: is.tally.reject { |token, times| times == 1 && was.include?(token) }.first(3), place: was.zip(is).index { |a, b| a != b } }
    end
  end

  def storm(adapter)
    skip "PostgreSQL is not installed" if adapter == "PostgreSQL" && !PostgresServer.installed?
    @config = OutboxDatabase.open(adapter, @dir)
    @redis = RedisServer.new
    Seriatim.redis = @redis.url
    @orders = worker("Orders", fold: :list, shards_count: 2)
    OutboxStorm.new(@config, @orders, @redis).tap { |storm| storm.run(kills, Random.new(RSpec.configuration.seed)) }
  end

  def finish(storm)
    rows = Seriatim::Outbox.const_get(:Row)
    storm.finish { eventually(300) { rows.count.zero? } }
    committed = storm.committed
    [committed, delivered(@orders)]
  end

  OutboxDatabase::ADAPTERS.each do |adapter|
    it "R-OUTBOX-9: pushes exactly what was committed, once, in the order of the commits (#{adapter})" do
      committed, pushed = finish(storm(adapter))
      expect(committed.sum { |_, tokens| tokens.size }).to be > kills
      expect(differences(committed, pushed)).to eq([])
    end
  end

  it "finds duplicates if the shards forget the numbers (the control)" do
    @config = OutboxDatabase.open("SQLite", @dir)
    @orders = worker("Orders", fold: :list, shards_count: 1)
    rows = Seriatim::Outbox.const_get(:Row)
    relay = Seriatim::Outbox.const_get(:Relay).new
    ActiveRecord::Base.transaction { @orders.perform_async_in_transaction([{ id: 1, payload: "a" }]) }
    relay.send(:number_rows)
    2.times do
      relay.send(:push_rows, "Orders", rows.all.to_a)
      REDIS.call("DEL", *REDIS.call("KEYS", "*:outbox:*"))
    end
    expect(delivered(@orders)).to eq("1" => %w[a a])
  end
end
