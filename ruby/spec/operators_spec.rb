# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "operators" do
  it "R-METRICS-5: gives metrics as Hashes, one of the queue and one of each shard", :core do
    recorder = worker("Figures")
    recorder.perform_async(Array.new(5) { |i| { id: i, delay: 60 } })
    expect(recorder.metrics).to include(length: 5, lag: 0.0)
    expect(recorder.metrics[:shards].sum { |shard| shard[:length] }).to eq(5)
  end

  it "give no owner of a shard that nobody owns" do
    recorder = worker("Ownerless")
    recorder.perform_async([{ id: 1, delay: 60 }])
    expect(recorder.metrics[:shards].map { |shard| shard[:owner] }).to eq([nil] * 5)
    expect(recorder.queries.explain(1)).to include(owner: nil, owner_alive: false)
    serve(recorder)
    eventually { recorder.metrics[:shards].all? { |shard| shard[:owner] } }
    expect(recorder.queries.explain(1)).to include(owner: recorder.metrics[:shards].first[:owner], owner_alive: true)
  end

  it "R-QUERY-8: takes texts, numbers, infinities and Times as bounds, and Strings, Symbols and Integers as ids", :core do
    recorder = worker("Queries")
    queries = recorder.queries
    time = Time.at(Time.now.to_i + 1000)
    recorder.perform_async([{ id: :a, perform_in: time, retry_count: 1, score: 2 }, { id: 1, perform_in: time + 2 }])
    expect(queries.range_by_perform_in(time, time + 1).map { |r| r[:id] }).to eq(["a"])
    expect(queries.rev_range_by_perform_in(Float::INFINITY, time.to_i + 1).map { |r| r[:id] }).to eq(["1"])
    expect(queries.range_by_retry_count(0, Float::INFINITY).map { |r| r[:id] }).to eq(["a"])
    expect(queries.fetch([1, :a]).last).to eq(id: "a", perform_in: time.to_f, retry_count: 1, payloads: [["", 2.0]], payloads_count: 1)
    expect { queries.range_by_retry_count(nil, 1) }.to raise_error(Seriatim::Invalid, /bound must be/)
  end

  it "act on Arrays of ids" do
    actions = worker("Acts").actions
    expect(actions.check).to include(findings: [])
    expect(actions.perform_now([])).to eq(0)
    expect { actions.delete("n") }.to raise_error(Seriatim::Invalid, /ids must be an Array/)
    expect { actions.perform_now("n") }.to raise_error(Seriatim::Invalid, "ids must be an Array, not a String")
    expect { actions.park([1.5]) }.to raise_error(Seriatim::Invalid, /ids\[0\] must be/)
  end

  it "delete and repair a queue only where they are told so by true or false" do
    recorder = worker
    recorder.perform_async([{ id: 1 }])
    [nil, "false", "true", 1].each do |flag|
      told = /must be true or false, not #{Regexp.escape(flag.inspect)}/
      expect { recorder.actions.delete_queue(force: flag) }.to raise_error(Seriatim::Invalid, /\Aforce #{told}/)
      expect { recorder.actions.check(repair: flag) }.to raise_error(Seriatim::Invalid, /\Arepair #{told}/)
    end
    expect(recorder.metrics[:length]).to eq(1)
    expect { recorder.actions.delete_queue(force: false) }.to raise_error(Seriatim::Invalid, /holds 1 ids/)
    expect(recorder.actions.check(repair: true)).to include(findings: [])
    expect(recorder.actions.delete_queue(force: true)).to eq(1)
  end

  it "show what runs in a shard that is an Integer, and in all for nil" do
    queries = worker("Shards").tap { |queue| queue.perform_async([{ id: 1 }]) }.queries
    ["x", true, false, 1.0, -1, 4096, 2**70].each do |shard|
      expect { queries.processing_data(shard) }.to raise_error(Seriatim::Invalid, /\Ashard must be an Integer from 0 to 4095, not #{Regexp.escape(shard.inspect)}/)
    end
    expect([nil, 4].map { |shard| queries.processing_data(shard) }).to eq([[], []])
  end

  it "perform chosen ids now and unpark all" do
    recorder = worker("Chosen")
    recorder.perform_async([{ id: 1, delay: 600, retry_count: 2 }, { id: :a, delay: 600 }, { id: "other", delay: 600 }])
    expect(recorder.actions.perform_now([1, :a, "nobody"])).to eq(2)
    expect(recorder.queries.fetch([1]).first).to include(retry_count: 2, perform_in: be_within(60).of(Time.now.to_f))
    expect { recorder.actions.perform_now(["other", nil]) }.to raise_error(Seriatim::Invalid, /ids\[1\] must be/)
    expect(recorder.queries.fetch(["other"]).first[:perform_in]).to be > Time.now.to_f + 500
    expect(recorder.actions.park([1, :a])).to eq(2)
    expect(recorder.actions.unpark_all).to eq(2)
    expect(recorder.queries.parked).to eq([])
  end

  it "drop a payload by its value, in the worker's codec" do
    recorder = worker("Drops", codec: [->(payload) { payload.to_s.reverse }, ->(bytes) { bytes.reverse }])
    recorder.perform_async([{ id: 1, payload: "ab", delay: 600 }, { id: 1, payload: :cd, delay: 600 }])
    expect(recorder.actions.drop_payload("1", "ba")).to eq(0)
    expect(recorder.actions.drop_payload(:"1", :ab)).to eq(1)
    expect(recorder.actions.morgue_drop_payload(1, "cd")).to eq(0)
    expect(recorder.queries.fetch([1]).first[:payloads].map(&:first)).to eq(["cd"])
    expect { recorder.actions.drop_payload(1.5, "cd") }.to raise_error(Seriatim::Invalid, /\Aid must be a String, Symbol or Integer/)
    expect { recorder.actions.drop_payload("", "cd") }.to raise_error(Seriatim::Invalid, /must be 1 to 1024 bytes/)
    expect { worker("Json").actions.drop_payload(1, { at: Object.new }) }.to raise_error(Seriatim::Invalid, /\Apayload/)
    expect { worker("Bytes", codec: :raw).actions.drop_payload(1, 7) }.to raise_error(Seriatim::Invalid, /\Apayload: must be a String of bytes/)
  end

  it "are found under Lowkiq's names client_queue, client_queries and client_actions" do
    recorder = worker("Names")
    recorder.client_queue.push([{ id: 1 }])
    expect(recorder.client_queries.fetch([1]).size).to eq(1)
    expect(recorder.client_actions.delete([1])).to eq(1)
    expect(recorder.client_queue).to have_attributes(name: "Names", shards_count: 5)
  end

  it "give the shard of an id by the number of shards in Redis" do
    queue = worker("Where", shards_count: 5).queue
    expect(queue.shard_of("0")).to be_nil
    queue.push([{ id: 0 }])
    expect((0..9).map { |id| queue.shard_of(id) }).to eq([4, 3, 2, 1, 3, 1, 0, 1, 1, 4])
    expect(queue.shard_of(:"0")).to eq(4)
    expect(worker("Where", shards_count: 9).queue.shard_of("0")).to eq(4)
    expect { queue.shard_of(1.5) }.to raise_error(Seriatim::Invalid, /id must be a String, Symbol or Integer/)
  end

  it "list all queues" do
    names = ["Module::Worker", "a b", "ä", "{Q}", "%41", "\xff".b]
    names.each { |name| worker(name).perform_async([{ id: 1 }]) }
    expect(Seriatim.const_get(:Pool).current.with(&:queues)).to eq(names.sort_by(&:b))
  end

  it "list the living nodes" do
    server = serve(worker("Nodes"))
    expect(eventually { Seriatim::Metrics.nodes.find { |node| node[:name] == server.id } }).to include(description: /\A[^|]* pid \d+ ruby /)
  end

  it "quiet and stop a server inside another process" do
    server = serve(worker("Nodes"))
    state = -> { Seriatim::Metrics.nodes.find { |node| node[:name] == server.id }&.fetch(:state) }
    eventually { state.call == "working" }
    expect(Seriatim.quiet_node(server.id)).to be(true)
    eventually { state.call == "quiet" }
    expect(server.running?).to be(true)
    expect(Seriatim.stop_node(server.id.to_sym)).to be(true)
    eventually { server.stopping? }
    expect([server.stop, state.call, Seriatim.stop_node(server.id)]).to eq([true, nil, false])
  end

  it "refuse an invalid node name by name" do
    [nil, 1, "", "x" * 65].each { |name| expect { Seriatim.stop_node(name) }.to raise_error(Seriatim::Invalid, /\Aname must be a text of 1 to 64 bytes/) }
  end
end
