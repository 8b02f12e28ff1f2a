# frozen_string_literal: true

class WorstCalls
  # Pops and the reports on them.
  module Pops
    CASES = %i[pops].freeze

    def pops
      push(nil, many("hot", PAYLOADS))
      fence = pop("the first of #{Text.thousands(PAYLOADS)} payloads")
      measure("of a popped id", :slice, "hot", "1p#{fence}", 800)
      popped("a checkpoint of 500 payloads", "checkpoint", "hot", fence, key: key(999), but: 500)
      popped("an acknowledgement of 500 payloads", "ack", "hot", fence, key: key(499))
      pop("payloads of 1,000 that end at once", ttr: 0)
      fence = pop(nil)
      push(nil, many("hot", PAYLOADS, PAYLOADS))
      popped("a failure, as much waits behind", "fail", "hot", fence)
      pop("as many payloads unite")
      large_pops
    end

    # The id with the PAYLOADS payloads still runs, so that it is not popped here.
    def large_pops
      push(nil, Array.new(3) { |i| ["large", LARGE.sub("z", i.to_s)] })
      fence = pop("a payload of 1 MiB", id: "large")
      popped("a payload of 1 MiB, more is left", "ack", "large", fence, key: key(0, "large"))
      pop(nil, id: "large")
      push(nil, ids(20, "x" * 30, "o"))
      20.times { |i| pop(nil, id: "o#{i}", ttr: 1_000_000) }
      sleep 1.1
      pop("20 ids that were not acknowledged", id: "o0")
    end

    # Pops an id, which must be this one, in as many calls as the script wants: while ids unite, or runs end whose time is over, it
    # takes nothing, and says that it is to be called again at once.
    # @return [Integer] the fence
    def pop(name, id: "hot", ttr: 30_000_000)
      token = { more: ["#{Scripts::PREFIX}push:p"] }
      loop do
        arguments = [@scripts.next_sequence, "list", 0, ttr, 1000, 0, 0, 25, "bury", 0]
        _, again_at, fence, popped, = name ? measure(name, :pop, *arguments, **token) : @scripts.run(:pop, *arguments, **token)
        return popped == id ? fence : raise("popped #{popped} in place of #{id}") if fence
        raise "#{id} is not to be popped before #{again_at}" if again_at != "0"
      end
    end

    # A report, sent again while the script says so.
    def popped(name, kind, id, fence, key: "", but: 0)
      loop do
        said = measure(name, :popped, @scripts.next_sequence, "list", 0, kind, id, fence, 0, "boom", 25, "bury", key, but, 0, "", 0,
                       more: ["#{Scripts::PREFIX}push:p"])
        break unless said == 2
      end
    end

    def key(place, id = "hot")
      member, score = @scripts.call("ZRANGE", "#{Scripts::PREFIX}spill:#{id}", place, place, "WITHSCORES")
      [member.unpack1("G"), score.to_f].pack("GG")
    end
  end
end
