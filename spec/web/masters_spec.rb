# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/accessibility"
require_relative "../support/redis_cluster"

# The masters of a real cluster, on their page and on those of queues.
RSpec.describe "the pages of a Redis Cluster" do
  include Accessibility

  before(:context) do
    @cluster = RedisCluster.new
    @mount = Mounts::Alone.new(@cluster)
    Seriatim.redis = @cluster.url
    queue = Application.worker("Spread")
    queue.shards_count = 5
    queue.perform_async((1..60).map { |number| { id: number, payload: number, delay: 3600 } })
  end

  after(:context) do
    Seriatim.redis = nil
    @mount&.close
    @cluster&.remove
  end

  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  def site(kind = :open) = @mount.site(kind)

  # The shards of the queue by the addresses of their masters.
  def shards = (0...5).group_by { |shard| @cluster.master_of(@cluster.slot_of("{Spread/#{shard}}")).address }

  def column(label) = @cluster.masters.to_h { |node| [node.address, cell(node.address, label)] }

  it "R-CLUSTER-12: show each master with what lies on it, its replicas, and slots that move" do
    open("")
    browser.press("Masters", within: "nav")
    shows(@cluster.masters.map(&:address).sort) { ids.sort }
    shows(@cluster.masters.to_h { |node| [node.address, shards.fetch(node.address, []).size.to_s] }) { column("Shards") }
    expect(column("Enqueued").values.sum(&:to_i)).to eq(60)
    expect(column("State").values.uniq).to eq(["Well"])
    expect(column("Replicas").values.uniq).to eq(["1"])
    expect(faults).to eq([])
    slot = @cluster.slot_of("elsewhere")
    target = (@cluster.masters - [source = @cluster.master_of(slot)]).first
    @cluster.begin_move(slot, target)
    see("1 slot is on its way")
    expect(column("Moving")).to eq(@cluster.masters.to_h { |node| [node.address, node == source ? "#{slot} to #{target.address}" : "0"] })
    expect(faults).to eq([])
    @cluster.end_move(slot, source, target)
    browser.waited("no move") { !browser.page_text.include?("on its way") }
  end

  it "R-CLUSTER-13: show all but the shard whose slot is half moved, and name the slot" do
    slot = @cluster.slot_of("{Spread/0}")
    target = (@cluster.masters - [source = @cluster.master_of(slot)]).first
    open("queue", name: "Spread")
    see("Shard 4")
    @cluster.half_move(slot, target, keys: 1)
    see("Redis is moving slot #{slot} to another master")
    expect(browser.page_text).to include("Shard 4").and(satisfy { |text| !text.include?("No answer") })
    expect(faults).to eq([])
    @cluster.end_move(slot, source, target)
    browser.waited("no note") { !browser.page_text.include?("Redis is moving") }
  end

  it "R-CLUSTER-12: show on the page of a queue which master has each shard" do
    open("queue", name: "Spread")
    see("Shard 4")
    tiles = browser.value("[...document.querySelectorAll('.tile')].map((tile) => tile.innerText)")
    expect(tiles.size).to eq(5)
    shards.each { |address, own| own.each { |shard| expect(tiles[shard]).to include("Shard #{shard}", address) } }
  end
end

# With one Redis there is no such page.
RSpec.describe "the pages of one Redis", mount: House::MOUNTS.keys.first do
  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  it "R-CLUSTER-12: have none of masters, and the API names none" do
    expect(rows_of("/api/v1/masters")).to eq("masters" => [])
    open("")
    see("Queues")
    expect(browser.value("document.querySelector('nav').innerText")).not_to include("Masters")
    open("masters")
    see("There is no such page")
  end
end
