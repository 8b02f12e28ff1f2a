# frozen_string_literal: true

class WorstCalls
  PAYLOADS = Integer(ENV.fetch("WORST_PAYLOADS", "100000"))
  LARGE = "z" * 1_048_576
  SOME = (PAYLOADS / 1000).clamp(5, 100) # large payloads, in the cases of moves and of late payloads

  # What the cases are made of: calls of scripts as a node, a client and an operator send them, with or without a name to be measured by.
  module Steps
    # As Redis is before each case.
    def clear
      @scripts.call("FLUSHALL", "SYNC")
      @scripts.generation = 1
      @settles = 0
      acquire("n1")
    end

    # Keeps the longest of the calls that go by this name.
    def measure(name, script, *arguments, **options)
      before = @scripts.cpu_ms
      said = block_given? ? yield : @scripts.run(script, *arguments, **options)
      took = @scripts.cpu_ms - before
      key = [script.to_s, name]
      @longest[key] = [@longest[key], took].max
      said
    end

    def acquire(node, owner = "", lease = 0, name = nil)
      said = name ? measure(name, :acquire, node, "list", owner, lease) : @scripts.run(:acquire, node, "list", owner, lease)
      _, @lease, @seen, = said
    end

    def claim(limit, name = nil)
      arguments = [@lease, @seen, limit, 0, 0, "list", 0, 25, "bury"]
      said = name ? measure(name, :claim, *arguments) : @scripts.run(:claim, *arguments)
      @seen = said[1]
      said
    end

    def settle(name, *arguments) = measure(name, :settle, @lease, @settles += 1, "list", *arguments)

    def recover(name, fold = "list")
      cursor = "0"
      cursor = measure(name, :recover, @lease, fold, cursor)[0] until cursor == ""
    end

    def push(name, jobs, fold = "list")
      @scripts.push(jobs, fold) { |arguments| name ? measure(name, :push) { @scripts.push_call(arguments) } : @scripts.push_call(arguments) }
    end

    def many(id, count, from = 0) = Array.new(count) { |i| [id, "p#{from + i}"] }
    def ids(count, payload, prefix = "i") = Array.new(count) { |i| ["#{prefix}#{i}", payload] }

    # Stamp and score of a spilled payload, as scripts take them.
    def entry(place, id = "hot")
      member, score = @scripts.call("ZRANGE", "#{Scripts::PREFIX}spill:#{id}", place, place, "WITHSCORES")
      [member.unpack1("G"), score.to_f].pack("EE")
    end

    def slices(name, script, began, fold = "list")
      cursor = ""
      loop do
        began, cursor, = measure(name, script, began, cursor, fold)
        break if cursor == ""
      end
    end

    # An action on chosen ids that is given them again until it has done all. It answers {began, 'more' or a cursor or '', ...}.
    def again(name, script, began, *chosen)
      loop do
        began, more, = measure(name, script, began, "", "list", *chosen)
        break if more == ""
      end
    end

    # The only id of the queue that can be claimed fails. Its payload is shorter than 2,000 bytes or longer than 2 KiB.
    def fail_alone(id, payload, fold = "list")
      push(nil, [[id, payload]], fold)
      claim(1)
      run = "#{payload.bytesize > 2000 ? 1 : 0}n#{@seen}"
      @scripts.run(:settle, @lease, @settles += 1, "list", 0, "fail", id, run, 3_600_000_000, "boom", 25, "bury")
    end

    # An action on an id with PAYLOADS payloads that failed, and of which more came behind the time that the action is bound to.
    def late_payloads_of_hot(script)
      push(nil, many("hot", PAYLOADS))
      claim(1)
      @scripts.run(:settle, @lease, @settles += 1, "list", 0, "fail", "hot", "1n#{@seen}", 60_000_000, "boom", 25, "bury")
      began = @scripts.run(:perform_now, 0, "suspect 0")[0]
      push(nil, many("hot", 100, PAYLOADS))
      slices("an id of #{Text.thousands(PAYLOADS)}, a payload came late", script, began)
    end

    # All these ids run under the last claim; they fail for the last time if limit is 0.
    def fail_ids(names, limit)
      names.each_slice(100) do |part|
        settle("100 failures that end the retries", 0, *part.flat_map { |id| ["fail", id, "0n#{@seen}", 3_600_000_000, "e" * 200, limit, "bury"] })
      end
    end
  end
end
