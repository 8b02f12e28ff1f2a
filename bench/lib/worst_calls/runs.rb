# frozen_string_literal: true

class WorstCalls
  # Claims, what ends runs, and what a node does for them.
  module Runs
    CASES = %i[claims_of_large claims_of_many checkpoints snoozes notices deaths kept_runs spread_runs].freeze

    def claims_of_large
      ids(200, LARGE, "l").each { |job| push(nil, [job]) }
      measure("200 ids of 1 MiB wait", :metrics)
      claim(1000, "1 of 200 ids of 1 MiB")
      measure("1 MiB", :slice, "l0", "1n#{@seen}", 0)
      measure("ids of 1 MiB", :records, "waiting", 1000, 0, 0, 0, *(2..199).map { |i| "l#{i}" })
      measure("ids of 1 MiB", :scan, "waiting", 0)
      measure("ids of 1 MiB", :check, "jobs", 0, 0)
      measure("50 ids of 1 MiB", :delete, *(150..199).map { |i| "l#{i}" })
    end

    def claims_of_many
      ids(1000, "x" * 30).each_slice(1000) { |part| push(nil, part) }
      claim(1000, "1,000 ids")
      push("1,000 ids that run", ids(1000, "y"))
      settle("1,000 ids, more waits behind each", 1, "0n#{@seen}", 1000, *ids(1000, nil).map(&:first))
      claim(200)
      failures = ids(1000, nil).map(&:first).first(100).flat_map { |id| ["fail", id, "0n#{@seen}", 0, "e" * 4000, 25, "bury"] }
      settle("100 failures with errors of 4 KB", 0, *failures)
      push(nil, ids(1000, "x" * 1990, "m"))
      claim(1000)
      claim(1000, "1 MiB of records of 2 KiB")
    end

    def checkpoints
      push(nil, many("hot", PAYLOADS))
      claim(1)
      last = entry(PAYLOADS - 2)
      checkpoint("a checkpoint of #{Text.thousands(PAYLOADS - 1)} payloads", "hot", "1n#{@seen}", last, PAYLOADS - 1)
      push(nil, ids(2, LARGE, "l").map { |_, payload| ["large", payload] } + [["large", "x"]])
      claim(1)
      checkpoint("a checkpoint of payloads of 1 MiB", "large", "1n#{@seen}", entry(0, "large"), 1)
    end

    # One settle of many payloads, in as many calls as the script wants: 2 says that the checkpoint is to be sent again.
    def checkpoint(name, id, run, last, count)
      loop { break if settle(name, 0, "checkpoint", id, run, 0, last, count, "")[2] != "2" }
    end

    def snoozes
      push(nil, many("hot", PAYLOADS))
      claim(1)
      first = entry(0).unpack1("E")
      push(nil, many("hot", PAYLOADS, PAYLOADS))
      settle("a snooze with a payload of 1 MiB, as much waits behind", 0, "snooze", "hot", "1n#{@seen}", 60_000_000, LARGE, 25, [first].pack("G"))
    end

    # As many as one call of the hook is told of.
    def notices
      names = ids(100, nil, "n").map(&:first)
      push(nil, names.map { |id| [id, "x" * 1900] })
      claim(1000)
      settle("100 failures that end the retries, with notices", 0,
             *names.flat_map { |id| ["fail+", id, "0n#{@seen}", 3_600_000_000, "e" * 4000, 0, "bury"] })
      said = measure("100 notices", :tell, "n1", @lease, "", 100, "n1")
      measure("100 notices", :told, "n1", *said.drop(2).each_slice(2).map(&:first))
    end

    def deaths
      5.times do |part|
        push(nil, ids(1000, "1", "d#{part}-"))
        claim(1000)
      end
      5.times { |part| push(nil, ids(1000, "2", "d#{part}-")) }
      acquire("n2", "n1", @lease, "5,000 runs of a dead node")
      recover("5,000 runs of a dead node, more waits behind each")
    end

    # A node that comes back names all its runs, the most that it may have in one shard (SHARD_MAX_RUNS in core/src/node/shard.h).
    def kept_runs
      known = Array.new(4) do |part|
        push(nil, ids(1000, "1", "k#{part}-"))
        claim(1000)
        ids(1000, "0n#{@seen}", "k#{part}-")
      end.flatten
      push(nil, ids(1, "1", "w"))
      measure("4,000 runs of the node go on", :acquire, "n1", "list", "", @lease, *known)
    end

    # The first action on an id gives each of the other runs an entry of its own.
    def spread_runs
      4.times do |part|
        push(nil, ids(1000, "1", "k#{part}-"))
        claim(1000)
      end
      push(nil, ids(1, "1", "w"))
      measure("an id, 4,000 others run", :park, "w0")
    end
  end
end
