# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "Two servers with the very same configuration" do
  include ProcessesHelper

  it "F2, R-CRASH-4: lose nothing and keep the order while one is frozen for three lease times, and its late settles are refused", limit: 240 do
    lease = 6
    queues(Frozen: { shards_count: 10 })
    ids = (1..100).map { |number| "id#{number}" }
    one, two = Array.new(2) { spawn_server(lease: lease) }.each(&:wait_until_started)
    producer = Thread.new do
      1.upto(100) do |number|
        queue(:Frozen).perform_async(ids.map { |id| { id: id, payload: { n: number, sleep: 0.002 } } })
        ids.each { |id| journal.pushed(:Frozen, id, [number]) }
        pause(0.04)
      end
    end
    eventually { [one, two].all? { |server| journal.ends.map(&:pid).tally.fetch(server.pid, 0) > 50 } }
    freeze_in_a_run(one)
    pause(3 * lease)
    eventually { two.log.include?(" recover ") } # a node whose own heartbeat was late waits longer before it takes over shards
    one.thaw
    producer.value
    drain
    eventually { [/ refused /, / lost /].all? { |event| one.log.match?(event) } && figures(:refused)[:Frozen] >= verdict.void.size }
    faults = verdict
    report "#{faults.void.size} ends of the frozen process were void, #{faults.stale.size} of its runs began late"
    expect(faults.faults).to eq({})
    expect(faults.charged).to eq([])
    expect(faults.void.size).to be > 0
    expect(faults.repeats.values.uniq - [[one.pid, two.pid]]).to eq([]) # what it held ran once more, and no more
    expect(figures(:refused)[:Frozen]).to be >= faults.void.size
    expect(stats_of_command["refused"]).to eq(figures(:refused)[:Frozen])
    expect(journal.ends.size).to be >= 100
    eventually { journal_has_new_work_of(one) }
    [one, two].each { |server| expect(server.stop).to eq(0) }
    expect(leftovers).to eq([])
  end

  it "F2, R-CRASH-4: refuse a late settle while the other runs the same id, and what was pushed meanwhile waits for that run" do
    queues(Frozen: { shards_count: 2 })
    servers = Array.new(2) { spawn_server(lease: 6) }.each(&:wait_until_started)
    gate = File.join(folder, "gate")
    push(:Frozen, "held", 1, wait_for_me: gate)
    first = eventually { journal.starts.first }.pid
    one, two = servers.sort_by { |server| server.pid == first ? 0 : 1 }
    one.freeze_if { true }
    eventually { journal.starts.any? { |start| start.pid == two.pid } }
    push(:Frozen, "held", 2)
    one.thaw
    FileUtils.touch("#{gate}.#{one.pid}")
    eventually { one.log.match?(/ refused /) || journal.starts.size > 2 }
    FileUtils.touch("#{gate}.#{two.pid}")
    drain

    expect(verdict.faults).to eq({})
    expect(journal.starts.map(&:numbers)).to eq([[1], [1], [2]])
    expect(one.log).to match(/ refused /)
    expect(figures(:refused)).to eq(Frozen: 1)
    expect(figures(:processed)).to eq(Frozen: 2)
    expect(leftovers).to eq([])
  end

  def stats_of_command
    command = seriatim("stats", "--json")
    expect(command.wait).to eq(0)
    JSON.parse(command.log).fetch("queues").first
  end

  # SIGSTOP while it has a run open, so that there will be a late settle.
  def freeze_in_a_run(server)
    eventually { server.freeze_if { open_runs(server).any? } }
  end

  def open_runs(server)
    lines = journal.lines.select { |line| line.pid == server.pid && %w[start end].include?(line.kind) }
    lines.group_by { |line| [line.id, line.fence] }.values.select { |run| run.map(&:kind) == ["start"] }
  end

  # The thawed process is of use again.
  def journal_has_new_work_of(server)
    before = journal.starts.count { |start| start.pid == server.pid }
    @last = (@last || 100) + 1
    (1..100).each { |number| push(:Frozen, "id#{number}", @last) }
    drain
    journal.starts.count { |start| start.pid == server.pid } > before
  end
end
