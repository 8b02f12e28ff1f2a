# frozen_string_literal: true

class WorstCalls
  # Actions of operators, and what their lists and the dashboard read.
  module Actions
    CASES = %i[actions actions_on_large chosen_ids whole_queue pages].freeze

    def actions
      late_payloads_of_hot(:kill_failed)
      push(nil, many("hot", PAYLOADS, 2 * PAYLOADS))
      slices("as many payloads wait", :dead_requeue, "0")
      measure("an id of #{Text.thousands(2 * PAYLOADS)}", :park, "hot")
      measure("an id of #{Text.thousands(2 * PAYLOADS)}", :unpark, "hot")
      measure("an id of #{Text.thousands(2 * PAYLOADS)}", :delete, "hot")
      push(nil, ids(100, "x", "w"))
      measure("100 ids", :park, *ids(100, nil, "w").map(&:first))
      measure("100 ids", :delete, *ids(100, nil, "w").map(&:first))
    end

    # 200 ids of 1 MiB that fail, and those of the morgue.
    def actions_on_large
      2.times do |round|
        ids(200, LARGE, "l").each { |job| push(nil, [job]) }
        200.times do
          _, seen, = claim(1000)
          id = @scripts.call("HKEYS", "#{Scripts::PREFIX}running").find { |name| name != "" }
          @scripts.run(:settle, @lease, @settles += 1, "list", 0, "fail", id, "1n#{seen}", 3_600_000_000, "boom", 25, "bury")
        end
        slices("200 ids of 1 MiB", round == 0 ? :delete_failed : :kill_failed, "0")
      end
      trim_morgue("100 of 200 ids of 1 MiB", keep: 100)
      slices("200 ids of 1 MiB", :dead_delete, "0")
      ids(200, LARGE, "l").each { |job| push(nil, [job], "last") }
      push("200 ids of 1 MiB whose payload is replaced", ids(200, "y", "l"), "last")
    end

    def trim_morgue(name, keep:)
      loop { break if measure(name, :trim_morgue, @lease, 0, keep)[1] == "" }
    end

    # As many as the core names in one call (SRT_SLICE in core/src/client/operator.h).
    def chosen_ids
      names = ids(50, nil, "w").map(&:first)
      push(nil, ids(50, "x" * 500, "w"))
      measure("50 ids", :park, *names)
      measure("50 ids", :unpark, *names)
      measure("50 ids", :perform_ids, *names)
      measure("50 ids", :records, "waiting", 100, 0, 0, 0, *names)
      claim(1000)
      fail_ids(names, 0)
      again("50 ids", :dead_requeue, "", *names)
      claim(1000)
      fail_ids(names, 0)
      again("50 ids", :dead_delete, "", *names)
      push(nil, ids(50, "x" * 500, "w"))
      again("50 ids", :delete, "", *names)
    end

    def whole_queue
      5.times do |part|
        names = ids(1000, nil, "f#{part}-").map(&:first)
        push(nil, names.map { |id| [id, "x"] })
        claim(1000)
        fail_ids(names, 25)
      end
      slices("5,000 ids in back-off", :perform_now, "0")
      5.times { |part| ids(1000, nil, "f#{part}-").map(&:first).each_slice(50) { |names| measure("50 of 5,000 ids", :park, *names) } }
      slices("5,000 parked ids", :unpark_all, "0")
      push(nil, many("hot", PAYLOADS))
      wipe("5,000 ids and an id of #{Text.thousands(PAYLOADS)}")
    end

    # As the deletion of a queue does: its shards are closed, then emptied.
    def wipe(name)
      @scripts.run(:close, as: 2)
      cursor = "0"
      cursor = measure(name, :wipe, "1", cursor, as: 2) until cursor == ""
    end

    # What lists and the dashboard read, of a shard with many ids.
    def pages
      (PAYLOADS / 1000).times { |part| push(nil, ids(1000, "x" * 30, "p#{part}-")) }
      claim(1000)
      fail_ids(@scripts.call("HVALS", "#{Scripts::PREFIX}claims").size == 1 ? ids(1000, nil, "p0-").map(&:first) : [], 25)
      claim(1000)
      name = "#{Text.thousands(PAYLOADS)} ids"
      measure(name, :list, "ready", "up", "-inf", "+inf", 0, 250)
      measure(name, :list, "ready", "down", "-inf", "+inf", 0, 250)
      measure(name, :list, "due", "up", "-inf", "+inf", 0, 250)
      measure(name, :page, "ready", "up", "-inf", "+inf", "", 120, 0, "p50-0")
      measure(name, :scan, "waiting", "0")
      measure(name, :scan, "running", "0")
      %w[waiting all running].product(%w[ids due hot]).each { |part, what| measure(name, :browse, part, "0", 1000, what, "") }
      %w[jobs due running].each { |part| measure(name, :check, part, "0", "0") }
      measure(name, :metrics)
      measure(name, :explain, "p50-1")
    end
  end
end
