# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "Trouble with Redis" do
  include ProcessesHelper

  # Two servers and two producers at work, each id with one producer. `Kept` is pushed to, and served by nobody.
  def under_load(seconds)
    queues(Merged: { shards_count: 6 }, Listed: { shards_count: 6, fold: :list }, Kept: { shards_count: 3, fold: :list })
    enough = File.join(folder, "enough")
    @fleet = Array.new(2) { spawn_server(lease: 20, only: %i[Merged Listed]) }.each(&:wait_until_started)
    producers = %i[Merged Listed Kept].map do |queue|
      spawn_producer(queue, (1..20).map { |number| "id#{number}" }, pause: 0.005, until_file: enough)
    end
    eventually { journal.starts.size > 100 && pushed(:Kept).any? } # who was never connected gives up soon
    deadline = Journal.now + seconds
    loop do
      yield
      break if Journal.now >= deadline
    end
    FileUtils.touch(enough)
    producers.each { |producer| expect(producer.wait).to eq(0), producer.log }
    eventually(90) { %i[Merged Listed].all? { |name| queue(name).metrics.values_at(:length, :busy).sum.zero? } }
  end

  def judge
    @fleet.each { |server| expect(server.stop).to eq(0), server.log }
    expect(verdict.faults.transform_values { |found| found.grep_v(%r{\AKept/}) }.except(:lost)).to eq({})
    expect(verdict.lost.grep_v(%r{\AKept/})).to eq([])
    expect(verdict.charged).to eq([])
    expect(kept).to eq(pushed(:Kept))
  end

  # All payloads that wait, by id.
  def kept
    queue(:Kept).queries.fetch(pushed(:Kept).keys).to_h { |job| [job[:id], job[:payloads].map { |payload, _| payload["n"] }] }
  end

  def pushed(queue)
    lines = journal.lines.select { |line| line.kind == "pushed" && line.queue == queue.to_s }
    lines.group_by(&:id).transform_values { |of_id| of_id.flat_map(&:numbers) }
  end

  it "R-REDIS-1: goes on by itself while SCRIPT FLUSH runs every 50 ms" do
    flushes = 0
    under_load(4) do
      redis.call("SCRIPT", "FLUSH")
      flushes += 1
      pause(0.05)
    end
    report "#{flushes} flushes, #{journal.ends.size} runs"

    judge
    expect(verdict.repeated).to eq([])
    expect(figures(:refused).values.sum).to eq(0)
  end

  it "R-REDIS-2: goes on by itself while Redis restarts with its append-only file" do
    under_load(0) do
      %i[TERM KILL TERM KILL].each do |signal|
        redis.restart(signal)
        restarted = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
        eventually { (@fleet.map(&:pid) - journal.starts.select { |start| start.fence > restarted }.map(&:pid)).empty? }
      end
    end
    report "4 restarts, #{journal.ends.size} runs, #{verdict.repeated.size} numbers began more than once"

    judge
    expect(@fleet.map { |server| server.log.scan(/lost the connection to Redis/).size }).to all(be >= 4)
    expect(verdict.repeated).to eq([])
  end

  it "R-REDIS-3: applies each push once while connections are cut 100 times a second" do
    cuts = 0
    under_load(4) do
      cuts += redis.call("CLIENT", "KILL", "TYPE", "normal").to_i
      pause(0.01)
    end
    report "#{cuts} connections cut, #{journal.ends.size} runs"

    judge
    expect(verdict.repeated).to eq([])
  end

  it "R-REDIS-4: does not end a server that loses its connection, and pushes wait for Redis" do
    queues(Merged: {})
    server = start_server
    redis.stop
    late = Thread.new { queue(:Merged).perform_async([{ id: "late", payload: { n: 1 } }]) }
    throughout(1) { server.alive? }
    redis.start
    expect(late.value.added).to eq(1)
    eventually { journal.ends("Merged", "late").any? }
    expect(server.stop).to eq(0)
  end

  # A machine may be busy with other things: one quiet moment is enough, and not every 20 ms are Redis'.
  it "R-REDIS-5: answers another client within 20 ms while one call pushes 100,000 jobs", :slow, limit: 300 do
    queues(Large: { shards_count: 5 })
    expect((1..20).any? { large_push_lets_others_in? }).to be(true)
  end

  def large_push_lets_others_in?
    redis.flush
    redis.call("SLOWLOG", "RESET")
    pinger = spawn_pinger
    pinger.wait_until_started
    result = queue(:Large).perform_async(Array.new(100_000) { |number| { id: number, payload: { n: number } } })
    expect(pinger.stop).to eq(0), pinger.log
    trips, longest, late = pinger.log[/\d.*\z/m].split.map(&:to_f)
    report format("%d round trips, longest %.1f ms, %d over 20 ms; slowest script %.1f ms", trips, longest, late, slowest_script_milliseconds)
    expect([result.added, result.folded, result.refused]).to eq([100_000, 0, 0])
    expect(queue(:Large).metrics[:length]).to eq(100_000)
    slowest_script_milliseconds < 100 && late <= trips / 10 # 4 and none on a quiet machine; 300 in one piece
  end

  # A process that does nothing but PING until TERM, then prints how often, the longest in ms, and how many over 20 ms.
  def spawn_pinger
    run([RbConfig.ruby, File.join(__dir__, "support", "pinger.rb"), redis.socket], {}, {})
  end

  # As Redis measured it.
  def slowest_script_milliseconds
    redis.call("SLOWLOG", "GET", "128").map { |entry| entry[2].to_i }.max.to_i / 1000.0
  end
end
