# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "Death of a process" do
  include ProcessesHelper

  it "F1, R-CRASH-1: loses and reorders nothing of 1,000 ids in 10 rounds of SIGKILL", limit: 240 do
    queues(Crash: { shards_count: 8 })
    ids = (1..1_000).map { |number| "id#{number}" }
    random = Random.new(RSpec.configuration.seed)
    number = 0
    10.times do
      begun = File.size(journal.path)
      server = spawn_server(lease: 0.5)
      2.times do
        number += 1
        result = queue(:Crash).perform_async(ids.map { |id| { id: id, payload: { n: number, sleep: 0.002 } } })
        expect(result.added + result.folded).to eq(1_000)
        ids.each { |id| journal.pushed(:Crash, id, [number]) }
      end
      eventually { File.read(journal.path, nil, begun).match?(/^start #{server.pid} /) }
      pause(random.rand * 0.15)
      server.kill
    end
    last = start_server(lease: 0.5)
    drain
    expect(last.stop).to eq(0)

    expect(verdict.faults).to eq({})
    report "#{verdict.repeated.size} of #{number * 1_000} numbers began more than once, #{verdict.charged.size} runs were " \
           "charged (killed thrice, the last time alone)"
    expect(leftovers).to eq([])
  end

  it "F1, R-CRASH-2: runs what a killed server held within the lease time on the other one" do
    lease = 6
    queues(Crash: { shards_count: 20 })
    expect((1..5).any? { |round| seconds_to_take_over(lease, round) < lease + 3 }).to be(true) # 0.5 more than the lease on a quiet machine
    expect(verdict.faults).to eq({})
    expect(verdict.charged).to eq([])
    expect(leftovers).to eq([])
  end

  # From the death of a server until another has begun all that it held. The victim runs ids of at most four shards, so
  # whichever ten of the twenty are the share of the other one, it can have six of them before the death.
  def seconds_to_take_over(lease, round)
    gate = File.join(folder, "gate#{round}")
    victim = start_server(lease: lease, threads: 4)
    ids_of_all_shards(20, "id#{round}-").each { |id| push(:Crash, id, 1, wait: gate) }
    eventually { starts_of(victim).size == 4 }
    held = starts_of(victim).map(&:id)
    heir = start_server(lease: lease, threads: 20)
    eventually { starts_of(heir).any? } # its share of the shards
    victim.kill
    killed_at = Journal.now
    eventually { (held - starts_of(heir).map(&:id)).empty? }
    taken = starts_of(heir).select { |start| held.include?(start.id) }.map(&:time).max - killed_at
    FileUtils.touch(gate)
    drain
    heir.stop
    report format("taken over %.2f s after the death, with a lease time of %d s", taken, lease)
    taken
  end

  def starts_of(server) = journal.starts.select { |start| start.pid == server.pid }

  it "F8, R-CRASH-3: buries a job that kills its process and charges none of its 100 neighbours", limit: 240 do
    retries = 1
    queues(Poison: { shards_count: 3, max_retry_count: retries, back_off: 0.1 })
    neighbours = (1..100).map { |number| "good#{number}" }
    push(:Poison, "bad", 1, kill: true)
    neighbours.each { |id| push(:Poison, id, 1, sleep: 0.01) }
    dead = restart_until(150) { queue(:Poison).queries.morgue_fetch(["bad"]).first }

    expect(dead[:error]).to match(/worker died/)
    expect(dead[:payloads].size).to eq(1)
    expect(journal.starts(nil, "bad").size).to be_between(retries + 1, retries + 3)
    start_server if @processes.none?(&:alive?)
    drain
    expect(journal.ends.map(&:id).uniq).to match_array(neighbours)
    expect(journal.starts.reject { |start| start.id == "bad" }.map(&:retry_count).uniq).to eq([-1])
    expect(verdict.concurrent + verdict.reordered + verdict.unfenced).to eq([])
    expect(queue(:Poison).actions.check[:findings]).to eq([])
  end

  # A supervisor: starts the server again whenever it dies, until the block gives something.
  def restart_until(seconds)
    server = nil
    eventually(seconds) do
      server = spawn_server(lease: 0.5, threads: 4) unless server&.alive?
      yield
    end
  end
end
