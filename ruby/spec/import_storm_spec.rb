# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "support/lowkiq_fills"

# A live queue of Lowkiq is imported while its producers go on, the import is killed again and again, and a server of Seriatim takes what
# has come. SOAK=1: an application with the gem lowkiq, 100,000 ids and 24 kills.
RSpec.describe "An import from Lowkiq that is killed", limit: 3600 do
  before { @source = RedisServer.new }

  after do
    @import&.remove
    @fills&.remove
    @source.remove
  end

  def soak? = !ENV["SOAK"].nil?
  def counts = soak? ? { waiting: 99_000, delayed: 1000, retrying: 300, dead: 300, running: 300 } : { waiting: 200, delayed: 30, retrying: 30, dead: 30, running: 30 }
  def kills = soak? ? 24 : 6
  def words(*more) = ["import", "lowkiq", "Shop", "--from", @source.url, *more]

  # What the server was given, by id, in its order.
  def taking
    @taken = Hash.new { |hash, id| hash[id] = [] }
    lock = Mutex.new
    shop = worker("Shop", codec: :marshal, fold: :list, batch_size: 100) { |payloads, _| lock.synchronize { payloads.each { |id, list| @taken[id].concat(list) } } }
    shop.perform_async([{ id: "makes the queue" }])
    shop.runs.define_singleton_method(:<<) { |_run| self } # 100,000 of them are not needed
    serve(shop)
    shop
  end

  # A part of what is there has been taken out of Lowkiq's keys.
  def sequence = @source.call("GET", "lowkiq:A:v1:Shop:seriatim:sequence")

  def kill_while_it_moves(random)
    kills.times do
      before = sequence
      @import = Command.new(*words("--watch"), wait: false)
      eventually(120) { sequence != before }
      sleep(random.rand * 0.3)
      @import.remove
    end
  end

  def left = LowkiqWriter.new(@source, "Shop").keys.grep_v(/:(processed|failed)\z/)

  # @return [Hash{String => Array}] id => payloads that it must have got, in order
  def expected(ids, parts, lasts)
    all = (ids.waiting + ids.delayed + ids.retrying + ids.running).to_h { |id| [id, 2] }
    parts.zip(lasts) { |part, last| part.each { |id| all[id] = last } }
    all.transform_values { |last| (1..last).to_a }
  end

  # @return [Array<String>] the first ids of which the server was given something else, what is missing, and what it was given too much
  def wrong(all)
    got = @taken.except("makes the queue")
    (all.keys | got.keys).reject { |id| all[id] == got[id] }.first(5).map { |id| "#{id}: -#{[*all[id]] - [*got[id]]} +#{[*got[id]].tally.select { |n, times| times > 1 || !all[id]&.include?(n) }}" }
  end

  # @return [Hash{String => Hash}] what waits for its time
  def waiting(shop, ids) = ids.each_slice(500).flat_map { |slice| shop.queries.fetch(slice) }.to_h { |record| [record[:id], record] }

  def finish(producers)
    lasts = producers.map(&:call)
    @import = Command.new(*words("--watch"), wait: false)
    eventually(600) { left.empty? }
    expect(@import.stop).to eq(0)
    expect(Command.run(*words)).to eq(["imported waiting 0, retrying 0, in process 0, dead 0, orphans 0, without payload 0, payloads 0, known 0, refused 0\n", 0])
    lasts
  end

  it "R-LOWKIQ-8, R-LOWKIQ-12: loses nothing, adds nothing twice, and keeps the order of each id" do
    @fills = (soak? ? LowkiqFills::ByGem : LowkiqFills::ByKeys).new(@source)
    ids = LowkiqFills::Ids.of(counts)
    later = @fills.fill(ids)
    shop = taking
    parts = ids.produced(2)
    producers = parts.map { |part| @fills.produce(part) }
    kill_while_it_moves(Random.new(RSpec.configuration.seed))
    lasts = finish(producers)
    expect(lasts).to all(be > 3)

    all = expected(ids, parts, lasts)
    kept = ids.delayed + ids.retrying
    eventually(soak? ? 600 : 120) { shop.metrics.values_at(:length, :busy) == [kept.size, 0] }
    records = waiting(shop, kept)
    expect(records.values_at(*ids.delayed).map { |record| record[:perform_in] }).to all(be_within(0.001).of(later))
    expect(records.values_at(*ids.retrying)).to all(include(retry_count: 0, error: "no stock"))
    shop.actions.perform_all_jobs_now
    drained(shop, seconds: 600)
    expect(wrong(all)).to eq([])
    dead = ids.dead.each_slice(500).flat_map { |slice| shop.queries.morgue_fetch(slice) }
    expect(dead.to_h { |record| [record[:id], record[:payloads].map(&:first)] }).to eq(ids.dead.to_h { |id| [id, [1]] })
    expect(shop.actions.check[:findings]).to eq([])
  end
end
