# frozen_string_literal: true

class WorstCalls
  # Pushes, ids of many payloads, and payloads that are named or scheduled.
  module Pushes
    HAS_DELIVER_AT = 8 # in the options of a job, see push.lua
    CASES = %i[pushes huge_id huge_merged_id handles scheduled_payloads large_scheduled_payloads].freeze

    def pushes
      push("1,000 new ids", ids(1000, "x" * 30))
      push("1,000 ids that wait", ids(1000, "y" * 30), "merge")
      push("512 KiB of new ids", ids(1000, "x" * 515, "n"))
      push("a payload of 1 MiB", ids(1, LARGE, "l"), "merge")
      push("a payload of 1 MiB onto such", ids(1, LARGE.sub("z", "y"), "l"), "merge")
      push(nil, ids(1000, "x" * 1990, "m"), "merge")
      push("1,000 ids with records of 2 KiB", ids(1000, "y" * 1000, "m"), "merge")
    end

    def huge_id
      push("onto an id of #{Text.thousands(PAYLOADS)}", many("hot", PAYLOADS))
      claim(1)
      run = "1n#{@seen}"
      measure("of #{Text.thousands(PAYLOADS)} payloads", :slice, "hot", run, PAYLOADS / 2)
      stamps = @scripts.call("ZRANGE", "#{Scripts::PREFIX}spill:hot", 0, 249).map { |member| member[0, 8] }.join
      settle("250 payloads that cannot be read", 0, "bury", "hot", run, 0, "bad", 250, stamps)
      push(nil, many("hot", PAYLOADS, PAYLOADS))
      settle("a failure, as much waits behind", 0, "fail", "hot", run, 60_000_000, "boom", 25, "bury")
      recover("as many payloads unite")
      measure("one of #{Text.thousands(2 * PAYLOADS)} payloads", :find, "waiting", "hot", "nothing", "")
      measure("one id of many payloads", :records, "waiting", 1_000_000, 0, 0, 0, "hot")
    end

    # An id of payloads of 2 KiB, all different, in a queue that folds equal ones: their digests are computed.
    def huge_merged_id
      count = PAYLOADS / 20
      jobs = ->(from) { Array.new(count) { |i| ["hot", "p#{from + i} #{"x" * 2000}"] } }
      push("payloads of 2 KiB onto an id", jobs[0], "merge")
      claim(1)
      run = "1n#{@seen}"
      push(nil, jobs[count], "merge")
      @scripts.run(:settle, @lease, @settles += 1, "merge", 0, "fail", "hot", run, 60_000_000, "boom", 25, "bury")
      recover("payloads of 2 KiB unite", "merge")
      began = @scripts.run(:perform_now, 0, "suspect 0")[0]
      push(nil, many("hot", 1), "merge")
      slices("payloads of 2 KiB, a payload came late", :kill_failed, began, "merge")
      push(nil, jobs[2 * count], "merge")
      slices("as many payloads of 2 KiB wait", :dead_requeue, "0", "merge")
    end

    # The handles of payloads in an id of many: the last one is found last.
    def handles
      push(nil, many("hot", PAYLOADS))
      stamps = [PAYLOADS - 1, PAYLOADS / 2].map { |place| @scripts.call("ZRANGE", "#{Scripts::PREFIX}spill:hot", place, place)[0][0, 8] }
      later = format("%d", (Time.now.to_f + 3600) * 1e6)
      find_and("a payload among #{Text.thousands(PAYLOADS)}", :reschedule, stamps[0], later, "0")
      measure("a payload that is scheduled", :reschedule, "hot", stamps[0], "", later, "0")
      measure("a payload that is scheduled", :cancel, "hot", stamps[0], "")
      find_and("a payload among #{Text.thousands(PAYLOADS)}", :cancel, stamps[1])
      measure("a payload among #{Text.thousands(PAYLOADS)}", :drop, "waiting", "hot", entry(PAYLOADS / 2))
      measure("250 payloads of 1,500 bytes onto an id of #{Text.thousands(PAYLOADS)}", :import, "merge", "hot", imported(250))
    end

    # As import.lua takes it.
    def imported(count)
      payloads = Array.new(count) { |i| [i, 1500].pack("EL<") + i.to_s.ljust(1500, ".") }
      ["w", 1, 0, -1, 1, "s", 0, count].pack("aEEl<L<aL<L<") + payloads.join
    end

    def find_and(name, script, stamp, *arguments)
      cursor = ""
      loop { break if (cursor = measure(name, script, "hot", stamp, cursor, *arguments)[1]) == "" }
    end

    # Jobs with deliver_at. @param seconds [Numeric] from now
    def schedule(name, jobs, seconds, fold = "list")
      options = [HAS_DELIVER_AT, 0, 0, -1, 0, ((Time.now.to_f + seconds) * 1e6).floor].pack("CEEl<CE")
      until jobs.empty?
        bytes = 0
        chunk = jobs.first(1000).take_while { |job| (bytes += job.sum(&:bytesize)) <= 524_288 }
        chunk = jobs.first(1) if chunk.empty?
        arguments = [@scripts.next_sequence, fold, "keep", 3, 0, *chunk.flat_map { |id, payload| [id, payload, options] }]
        said = name ? measure(name, :push) { @scripts.push_call(arguments) } : @scripts.push_call(arguments)
        jobs = jobs.drop(said.to_i)
      end
    end

    # Claims until nothing is overdue any more.
    def deliver(name, fold = "list")
      loop do
        @seen = measure(name, :claim, @lease, @seen, 1, 0, 0, fold, 0, 25, "bury")[1]
        break if @scripts.call("ZCOUNT", "#{Scripts::PREFIX}scheduled", "-inf", format("%d", Time.now.to_f * 1e6)).zero?
      end
    end

    def scheduled_payloads
      push(nil, many("hot", PAYLOADS), "merge")
      schedule("1,000 payloads with deliver_at", ids(1000, "x" * 30, "s"), 0.5, "merge")
      schedule("1,000 payloads with deliver_at for an id", many("hot", 1000, PAYLOADS), 0.5, "merge")
      schedule("1,000 payloads of 500 bytes with deliver_at", ids(1000, "x" * 500, "t"), 0.5, "merge")
      sleep 1
      deliver("2,000 ids and an id of #{Text.thousands(PAYLOADS)} get scheduled payloads", "merge")
      schedule(nil, many("later", PAYLOADS), 3600)
      measure("#{Text.thousands(PAYLOADS)} scheduled payloads", :check_scheduled, "scheduled", "0", "0")
      measure("#{Text.thousands(PAYLOADS)} scheduled payloads", :check_scheduled, "sched", "0", "0", "later")
      measure("#{Text.thousands(PAYLOADS)} scheduled payloads", :check_scheduled, "schedmap", "0", "0", "later")
      again("an id of #{Text.thousands(PAYLOADS)} scheduled payloads", :delete, "", "later")
    end

    def large_scheduled_payloads
      ids(20, LARGE, "l").each { |job| push(nil, [job], "merge") }
      ids(20, LARGE.sub("z", "y"), "l").each { |job| schedule("a payload of 1 MiB with deliver_at", [job], 1, "merge") }
      sleep 1.5
      deliver("payloads of 1 MiB arrive", "merge")
    end
  end
end
