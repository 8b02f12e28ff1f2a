# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "Order between processes" do
  include ProcessesHelper

  it "R-ORDER-3: delivers 1..2000 of one id in order, never side by side, by 4 processes of 8 threads" do
    queues(Order: { shards_count: 5 })
    servers = Array.new(4) { spawn_server }.each(&:wait_until_started)
    1.upto(2_000) { |number| push(:Order, "one", number) }
    drain
    servers.each { |server| expect(server.stop).to eq(0) }

    expect(verdict.strict_faults).to eq({})
    expect(journal.starts.flat_map(&:numbers)).to eq((1..2_000).to_a)
    expect(leftovers).to eq([])
  end

  it "R-ORDER-3: keeps 50 ids in order that run side by side in 4 processes" do
    queues(Order: { shards_count: 16, batch_size: 3 })
    servers = Array.new(4) { spawn_server }.each(&:wait_until_started)
    ids = (1..50).map { |number| "id#{number}" }
    1.upto(60) { |number| ids.each { |id| push(:Order, id, number) } }
    drain
    servers.each { |server| expect(server.stop).to eq(0) }

    expect(verdict.strict_faults).to eq({})
    expect(journal.starts.map(&:pid).uniq.size).to be > 1
    expect(figures(:refused)).to eq(Order: 0)
    expect(leftovers).to eq([])
  end

  it "runs an id once more, and only once, for 20,000 pushes while it runs" do
    queues(Order: { shards_count: 5 })
    Array.new(2) { spawn_server }.each(&:wait_until_started)
    gate = File.join(folder, "gate")
    push(:Order, "busy", 1, wait: gate)
    eventually { journal.starts.any? }
    2.step(20_001, 100) { |from| push(:Order, "busy", [*from..from + 98]) && push(:Order, "busy", from + 99) }
    expect(journal.starts.size).to eq(1)
    FileUtils.touch(gate)
    drain

    expect(journal.starts.map(&:numbers)).to eq([[1], (2..20_001).to_a])
    expect(verdict.strict_faults).to eq({})
    expect(leftovers).to eq([])
  end
end
