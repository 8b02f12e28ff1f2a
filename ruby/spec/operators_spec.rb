# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "operators" do
  it "LK-A-38: metrics", :core do
    gate = Thread::Queue.new
    recorder = worker("Figures", max_retry_count: 0) { |payloads, _| payloads.key?("busy") ? gate.pop : raise("x") }
    expect(recorder.metrics).to include(length: 0, fresh: 0, retries: 0, morgue_length: 0, lag: 0.0, processed: 0, failed: 0, busy: 0)
    recorder.perform_async(Array.new(4) { |i| { id: "dead#{i}" } } + [{ id: "busy" }])
    serve(recorder)
    eventually { recorder.metrics.values_at(:morgue_length, :busy) == [4, 1] }
    recorder.actions.pause
    recorder.perform_async([{ id: "a", perform_in: now - 10 }, { id: "b", delay: 60 }, { id: "c", delay: 60 },
                            { id: "d", retry_count: 0, delay: 60 }, { id: "e", retry_count: 3, delay: 60 }])
    sleep 0.5
    figures = recorder.metrics
    expect(figures).to include(fresh: 3, retries: 2, length: 5, busy: 1, morgue_length: 4, failed: 4)
    expect(figures[:shards].sum { |shard| shard[:length] }).to eq(5)
    gate << 1
  end

  it "LK-A-38: what lies ahead has no lag" do
    recorder = worker("Ahead")
    recorder.perform_async([{ id: 1, delay: 60 }])
    expect(recorder.metrics).to include(lag: 0.0, length: 1)
  end

  it "LK-A-39: queries of what waits, up and down", :core do
    recorder = worker("Queries")
    queries = recorder.queries
    %i[range_by_id rev_range_by_id].each { |name| expect(queries.public_send(name, *%w[- +])).to eq([]) }
    base = (now + 1000).round
    recorder.perform_async([["a", 2, 0], ["b", 1, 1], ["c", 3, -1]].map { |id, at, count| { id: id, perform_in: base + at, retry_count: count, payload: id, score: at } })
    ids = ->(name, *bounds, **options) { queries.public_send(name, *bounds, **options).map { |r| r[:id] } }
    expect(ids.(:range_by_id, "-", "+")).to eq(%w[a b c])
    expect(ids.(:rev_range_by_id, "+", "-")).to eq(%w[c b a])
    expect(ids.(:range_by_id, "(a", "[c", limit: 1)).to eq(%w[b])
    expect(ids.(:range_by_perform_in, "-inf", "+inf")).to eq(%w[b a c])
    expect(ids.(:rev_range_by_perform_in, "+inf", base + 2)).to eq(%w[c a])
    expect(ids.(:range_by_retry_count, -1, Float::INFINITY)).to eq(%w[c a b])
    expect(ids.(:rev_range_by_retry_count, "+inf", 0)).to eq(%w[b a])
    expect(queries.fetch(["c", "nobody", :a])).to eq(
      [{ id: "c", perform_in: base + 3.0, retry_count: -1, payloads: [["c", 3.0]] }, { id: "a", perform_in: base + 2.0, retry_count: 0, payloads: [["a", 2.0]] }]
    )
    expect { queries.range_by_id("a", "+") }.to raise_error(Seriatim::Invalid)
    expect { queries.range_by_perform_in("soon", "+inf") }.to raise_error(Seriatim::Invalid)
  end

  it "LK-A-39: queries of the dead and of what runs" do
    gate = Thread::Queue.new
    recorder = worker("Dead", max_retry_count: 0) { |payloads, _| payloads.key?("run") ? gate.pop : raise("of #{payloads.keys}") }
    serve(recorder, threads: 2)
    %w[b a].each do |id|
      recorder.perform_async([{ id: id, score: 1 }])
      eventually { recorder.queries.morgue_fetch([id]).any? }
    end
    recorder.perform_async([{ id: "run", payload: 1 }])
    eventually { recorder.metrics[:busy] == 1 }
    queries = recorder.queries
    expect(queries.processing_data.map { |r| r.slice(:id, :retry_count) }).to eq([{ id: "run", retry_count: -1 }])
    expect(queries.morgue_range_by_id("-", "+").map { |r| r[:id] }).to eq(%w[a b])
    expect(queries.morgue_rev_range_by_id("+", "-").map { |r| r[:id] }).to eq(%w[b a])
    expect(queries.morgue_range_by_updated_at("-inf", "+inf").map { |r| r[:id] }).to eq(%w[b a])
    expect(queries.morgue_rev_range_by_updated_at("+inf", "-inf").map { |r| r[:id] }).to eq(%w[a b])
    expect(queries.morgue_fetch(%w[a x])).to match([{ id: "a", updated_at: be_within(5).of(now), payloads: [["", 1.0]], error: 'of ["a"]' }])
    gate << 1
  end

  it "acts, and says on how many" do
    recorder = worker("Acts")
    actions = recorder.actions
    recorder.perform_async(Array.new(3) { |i| { id: "f#{i}", retry_count: 1, delay: 60 } } + [{ id: "n", delay: 60 }])
    expect(actions.kill_all_failed_jobs).to eq(3)
    expect(recorder.metrics).to include(length: 1, morgue_length: 3)
    expect(actions.morgue_queue_up(["f0", "nobody"])).to eq(1)
    expect(actions.morgue_delete(["f1"])).to eq(1)
    expect(actions.morgue_delete_all_jobs).to eq(1)
    expect(actions.perform_all_jobs_now).to be >= 1
    expect(recorder.metrics[:lag]).to be < 100
    expect(actions.park(["n"])).to eq(1)
    expect(recorder.queries.parked.map { |r| r[:id] }).to eq(["n"])
    expect(actions.unpark(["n"])).to eq(1)
    expect(actions.delete(%w[n f0])).to eq(2)
    expect(actions.pause).to eq(5)
    expect(actions.resume).to eq(5)
    expect(actions.check).to include(findings: [])
    expect(actions.delete([])).to eq(0)
    expect { actions.delete("n") }.to raise_error(Seriatim::Invalid, /ids must be an Array/)
  end

  it "explains" do
    recorder = worker("Why")
    recorder.perform_async([{ id: 1, delay: 60 }])
    expect(recorder.queries.explain(1)).to include(text: /\S/, job: include(id: "1", state: "delayed"), dead: nil)
    expect(recorder.queries.explain("nobody")).to include(job: nil)
  end

  it "has Lowkiq's names" do
    recorder = worker("Names")
    recorder.client_queue.push([{ id: 1 }])
    expect(recorder.client_queries.fetch([1]).size).to eq(1)
    expect(recorder.client_actions.delete([1])).to eq(1)
    expect(recorder.client_queue).to have_attributes(name: "Names", shards_count: 5)
  end

  it "tells the shard of an id, by the number of shards that Redis has" do
    queue = worker("Where", shards_count: 5).queue
    expect(queue.shard_of("0")).to be_nil
    queue.push([{ id: 0 }])
    expect((0..9).map { |id| queue.shard_of(id) }).to eq([4, 3, 2, 1, 3, 1, 0, 1, 1, 4])
    expect(queue.shard_of(:"0")).to eq(4)
    expect(worker("Where", shards_count: 9).queue.shard_of("0")).to eq(4)
    expect { queue.shard_of(1.5) }.to raise_error(Seriatim::Invalid, /id must be a String, Symbol or Integer/)
  end

  it "names all queues" do
    names = ["Module::Worker", "a b", "ä", "{Q}", "%41", "\xff".b]
    names.each { |name| worker(name).perform_async([{ id: 1 }]) }
    expect(Seriatim.const_get(:Pool).current.with(&:queues)).to eq(names.sort_by(&:b))
  end

  it "shows the living nodes" do
    server = serve(worker("Nodes"))
    expect(eventually { Seriatim::Metrics.nodes.find { |node| node[:name] == server.id } }).to include(description: /ruby/)
  end
end
