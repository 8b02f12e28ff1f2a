# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "Servers that come and go" do
  include ProcessesHelper

  # Every shard of these queues serves a new push in time.
  def expect_all_served(within, names, number)
    pushed = names.to_h { |name| [name, ids_of_all_shards(queue(name).metrics[:shards].size)] }
    pushed.each { |name, ids| ids.each { |id| push(name, id, number) } }
    from = Journal.now
    eventually(within) do
      done = journal.lines.select { |line| line.kind == "start" && line.numbers.include?(number) }.map { |line| [line.queue, line.id] }
      pushed.all? { |name, ids| ids.all? { |id| done.include?([name.name, id]) } }
    end
    report format("all %d shards served %.2f s after the change", pushed.values.sum(&:size), Journal.now - from)
  end

  it "F5, R-CRASH-5: go from 1 to 4 to 2 with a new queue in traffic, and every shard is served within two lease times", limit: 240 do
    lease = 20 # a busy machine needs some seconds for what takes half of one
    queues(Old: { shards_count: 8 }, New: { shards_count: 8 })
    enough = File.join(folder, "enough")
    servers = [start_server(lease: lease, only: [:Old])]
    producers = [spawn_producer(:Old, (1..30).map { |number| "old#{number}" }, pause: 0.01, until_file: enough)]
    eventually { journal.ends.size > 100 }

    servers.concat(Array.new(3) { spawn_server(lease: lease) }.each(&:wait_until_started))
    producers << spawn_producer(:New, (1..30).map { |number| "new#{number}" }, pause: 0.01, until_file: enough)
    expect_all_served(2 * lease, %i[Old New], 1)
    eventually(2 * lease) { servers.all? { |server| journal.starts.any? { |start| start.pid == server.pid } } }

    2.times { expect(servers.shift.stop).to eq(0) }
    expect_all_served(2 * lease, %i[Old New], 2)
    FileUtils.touch(enough)
    producers.each { |producer| expect(producer.wait).to eq(0), producer.log }
    drain
    servers.each { |server| expect(server.stop).to eq(0) }

    expect(verdict.strict_faults).to eq({})
    expect(figures(:refused)).to eq(Old: 0, New: 0)
    expect(leftovers).to eq([])
  end

  seconds = ENV["SOAK"] ? 60 : 20
  it "F5, R-CRASH-5: are replaced every second for #{seconds} s: no delivery is refused and none runs twice", limit: seconds + 220 do
    queues(Deploy: { shards_count: 12, batch_size: 2 })
    enough = File.join(folder, "enough")
    servers = Array.new(2) { spawn_server(lease: 20, threads: 4) }.each(&:wait_until_started)
    producers = Array.new(2) do |place|
      ids = (1..40).map { |number| "p#{place}-#{number}" }
      spawn_producer(:Deploy, ids, pause: 0.01, until_file: enough, payload: { sleep: 0.003 })
    end
    leaving = []
    replaced = 0
    deadline = Journal.now + seconds
    while Journal.now < deadline
      servers << spawn_server(lease: 20, threads: 4)
      leaving << servers.shift.tap { |server| server.signal(:TERM) }
      replaced += 1
      servers.each(&:wait_until_started)
      pause(1)
    end
    leaving.each { |server| expect(server.wait).to eq(0), server.log }
    FileUtils.touch(enough)
    producers.each { |producer| expect(producer.wait).to eq(0), producer.log }
    drain
    servers.each { |server| expect(server.stop).to eq(0) }

    pids = journal.starts.map(&:pid).uniq.size
    report "#{replaced} servers replaced, #{pids} ran something, #{journal.starts.size} runs"
    expect(verdict.strict_faults).to eq({})
    expect(figures(:refused)).to eq(Deploy: 0)
    expect(pids).to be > replaced / 4
    expect(leftovers).to eq([])
  end
end
