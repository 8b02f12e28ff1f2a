# frozen_string_literal: true

require "zlib"

class WorstCalls
  # What a mover calls while ids move to another number of shards, here from shard 0 alone to the shards 0 and 1, and pushes then.
  module Moves
    CASES = %i[moves_of_small_ids moves_of_running_ids moves_of_full_ids moves_of_histories moves_of_scheduled moves_of_notices
               moves_of_huge_ids moves_of_large_payloads pushes_in_a_move].freeze
    KINDS = %w[jobs scheduled dead scores events notices outboxes].freeze
    LAYOUT = "2 2 4 1 2" # generation, shards, schema, shards before, most shards
    HISTORY = 100 # SRT_HISTORY_MOST in core/src/model/stored.h
    DAY = 86_400_000_000 # microseconds
    UNLESS = "2 unless" # a push to a new shard that looks into the old one

    # Ids that leave shard 0.
    def leaving(count, prefix = "i")
      (0..).lazy.map { |i| "#{prefix}#{i}" }.select { |id| Zlib.crc32(id).odd? }.first(count)
    end

    def now_us = (Time.now.to_f * 1e6).floor
    def source(kind) = "#{Scripts::PREFIX}#{kind}"

    def turn(name = nil)
      [Scripts::PREFIX, Scripts::OTHER_PREFIX].each do |prefix|
        name ? measure(name, :turn, as: LAYOUT, on: prefix) : @scripts.run(:turn, as: LAYOUT, on: prefix)
      end
      @scripts.generation = 2
    end

    # @return [Array(String, String)] ids that are to leave, each with what depart wants to know of it
    def listed(name, kinds = KINDS)
      kinds.flat_map { |kind| listed_of(kind, "#{kind}: #{name}") }.select { |id, _| Zlib.crc32(id).odd? }
    end

    def listed_of(kind, name)
      found, cursor = [], ""
      until cursor == "0"
        cursor, _, *page = measure(name, :foreign, kind, cursor == "" ? "0" : cursor)
        found.concat(page.each_slice(2).to_a)
      end
      found
    end

    # Moves these ids as a mover does, until a call takes none of them any more.
    def move(name, ids, fold = "list")
      loop do
        sequence, tick, _, *parts = measure(name, :depart, *ids.first(100).flatten)
        batch = parts.each_slice(3).to_a
        return if sequence == "0"

        batch.each { |id, _, letters| letters.each_char { |letter| copy(name, sequence, id, letter, fold) } }
        arrive(name, sequence, tick, fold, batch)
        moved = batch.map(&:first)
        loop { break if measure(name, :departed, sequence, *moved) == "OK" }
        ids -= ids.first(100).select { |id, _| moved.include?(id) }
      end
    end

    def copy(name, sequence, id, letter, fold)
      place = "0"
      until place == ""
        following, slice = measure(name, :slice_out, sequence, id, letter, place)
        measure(name, :slice_in, 0, sequence, id, letter, place, slice, fold, on: Scripts::OTHER_PREFIX)
        place = following
      end
    end

    def arrive(name, sequence, tick, fold, batch)
      arguments = [0, sequence, tick, fold, HISTORY, *batch.flat_map { |id, part, _| [id, part] }]
      loop do
        word, = measure(name, :arrive, *arguments, on: Scripts::OTHER_PREFIX)
        raise "payloads are missing" if word == "SLICES"
        break if word != "MORE"
      end
    end

    def moves_of_small_ids
      push(nil, leaving(PAYLOADS).map { |id| [id, "x" * 30] })
      measure("1 shard to 2", :set_layout) do
        @scripts.call("SET", "seriatim:Q:layout", "1 1 3")
        @scripts.evaluate(:set_layout, %w[layout settings deleted history times guard].map { |kind| "seriatim:Q:#{kind}" }, "1 1 3", "2 4 1 2")
      end
      turn("#{Text.thousands(PAYLOADS)} ids")
      ids = listed("#{Text.thousands(PAYLOADS)} ids", %w[jobs]).uniq
      move("100 ids", ids.first(1000))
      mark = @scripts.run(:foreign, "jobs", "0")[1]
      @scripts.call("DEL", source("jobs"))
      measure("a list of #{Text.thousands(PAYLOADS)} stale entries", :out, mark)
    end

    # Runs of the owner that claims noted as a whole: departing gives each an entry of its own.
    def moves_of_running_ids
      4.times do |part|
        push(nil, leaving(1000, "k#{part}-").map { |id| [id, "x"] })
        claim(1000)
      end
      turn
      ids = leaving(1000, "k3-").map { |id| [id, ""] }
      ids.each_slice(100) { |part| measure("100 ids that run, with 3,900 others", :depart, *part.flatten) }
      ids.each_slice(100) do |part|
        settle("100 failures of ids that are to leave", 0, *part.flat_map { |id, _| ["fail", id, "0n#{@seen}", DAY, "e" * 200, 25, "bury"] })
      end
      2.times { measure("50 ids whose run has ended", :depart, "") }
    end

    # Of each id a waiting and a dead record of the largest size, a remembered score and numbers in an outbox.
    def moves_of_full_ids
      names = leaving(PAYLOADS / 100)
      push(nil, names.map { |id| [id, "x" * 1990] })
      claim(1000)
      names.each_slice(100) do |part|
        @scripts.run(:settle, @lease, @settles += 1, "list", 0, *part.flat_map { |id| ["fail", id, "0n#{@seen}", DAY, "e" * 30, 0, "bury"] })
      end
      push(nil, names.map { |id| [id, "x" * 1990] })
      names.each_with_index do |id, i|
        @scripts.call("HSET", source("scores"), id, [1.0, now_us + DAY].pack("EE"))
        @scripts.call("ZADD", source("scoreends"), now_us + DAY, id)
        @scripts.call("ZADD", source("outbox:o"), *Array.new(5) { |k| [(5 * i) + k + 1, [(5.0 * i) + k + 1].pack("G") + id] }.flatten)
      end
      @scripts.call("HSET", source("outboxes"), "o", 0)
      turn
      move("ids with records of 2 KiB", listed("ids with records of 2 KiB"))
    end

    def moves_of_histories
      turn
      [["100 short events of each", 100, 9], ["100 events of 1 KiB", 100, 1024]].each do |name, count, bytes|
        names = leaving(count, "#{bytes}-")
        names.each do |id|
          @scripts.call("RPUSH", source("events:#{id}"), *Array.new(HISTORY) { [1, now_us, 0].pack("CEE") + ("t" * bytes) })
          @scripts.call("ZADD", source("traced"), now_us, id)
        end
        move("#{count} ids, #{name}", listed("#{count} ids", %w[events]))
      end
    end

    def moves_of_scheduled
      schedule(nil, leaving(100).flat_map { |id| Array.new(16) { |i| [id, "p#{i}"] } }, 3600)
      schedule(nil, leaving(1, "hot").flat_map { |id| many(id, PAYLOADS) }, 3600)
      turn
      ids = listed("#{Text.thousands(PAYLOADS)} payloads", %w[scheduled]).uniq
      hot = ids.select { |id, _| id.start_with?("hot") }
      move("100 ids, 16 scheduled payloads of each", ids - hot)
      move("#{Text.thousands(PAYLOADS)} scheduled payloads of an id", hot)
    end

    # As the killing of ids that failed leaves them: of many ids, and of one that was killed slice by slice, or many times.
    def moves_of_notices
      [["#{SOME} ids", "4 KiB", leaving(SOME), 4096], ["one id", "4 KiB", leaving(1, "l") * SOME, 4096],
       ["#{SOME} ids", "256 KiB", leaving(SOME, "m"), 260_000], ["one id", "256 KiB", leaving(1, "n") * SOME, 260_000]].each do |whose, size, names, bytes|
        clear
        names.each do |id|
          fail_alone(id, "x" * bytes)
          @scripts.run(:kill_failed, "0", "", "list", "1")
        end
        turn
        move("#{SOME} notices of #{size} of #{whose}", listed("#{SOME} of #{size} of #{whose}", %w[notices]))
      end
    end

    def moves_of_huge_ids
      %w[list merge].each do |fold|
        [[PAYLOADS, ""], [PAYLOADS / 20, "x" * 2000]].each do |count, more|
          clear
          id = leaving(1).first
          push(nil, Array.new(count) { |i| [id, "p#{i} #{more}"] }, fold)
          turn
          move("#{Text.thousands(count)} payloads#{more == "" ? "" : " of 2 KiB"} of an id, fold #{fold}", [[id, ""]], fold)
        end
      end
    end

    def moves_of_large_payloads
      names = leaving(SOME)
      names.each { |id| push(nil, [[id, LARGE]]) }
      schedule(nil, names.first(20).map { |id| [id, LARGE] }, 3600)
      turn
      move("#{SOME} ids of 1 MiB", listed("ids of 1 MiB", %w[jobs scheduled]).uniq)
    end

    # Each id that is not in jobs may lie in the other keys, whose ids are others.
    def pushes_in_a_move
      push(nil, leaving(2000, "dead").map { |id| [id, "x"] })
      2.times do
        claim(1000)
        names = @scripts.call("HKEYS", source("jobs")).first(1000)
        fail_ids(names, 0)
      end
      push(nil, leaving(1000, "w").map { |id| [id, "x" * 30] })
      schedule(nil, leaving(1000, "s").map { |id| [id, "x"] }, 3600)
      turn
      pushed("1,000 ids that wait, from the old shard", leaving(1000, "w"), "2 here", Scripts::PREFIX)
      pushed("1,000 ids that are not in the old shard", leaving(1000, "n"), "2 here", Scripts::PREFIX)
      pushed("1,000 ids that still wait in the old shard, to the new one", leaving(1000, "w"), UNLESS, Scripts::OTHER_PREFIX)
      pushed("1,000 ids with scheduled payloads in the old shard, to the new one", leaving(1000, "s"), UNLESS, Scripts::OTHER_PREFIX)
      measure("1,000 ids that are not in the old shard", :absent, message_pack(leaving(1000, "n")))
      measure("1,000 ids with scheduled payloads", :absent, message_pack(leaving(1000, "s")))
      pushed("1,000 new ids, to the new shard", leaving(1000, "n"), "2 #{now_us}", Scripts::OTHER_PREFIX)
      pushed("1,000 new ids, to the new shard, which looks into the old one", leaving(1000, "o"), UNLESS, Scripts::OTHER_PREFIX)
      pushed("1,000 ids with scheduled payloads, to the old shard", leaving(1000, "s"), "2 here", Scripts::PREFIX)
    end

    def message_pack(ids) = [0xdc, ids.size].pack("Cn") + ids.map { |id| [0xda, id.bytesize].pack("Cn") + id }.join

    # In as many calls as the script wants. width: behind UNLESS follow the old shard of the jobs and their number.
    def pushed(name, names, width, prefix)
      until names.empty?
        step = width == UNLESS ? "#{width} 0:#{names.size}" : width
        arguments = [@scripts.next_sequence, "list", "keep", step, 0, *names.flat_map { |id| [id, "y" * 30] }]
        names = names.drop(measure(name, :push, *arguments, more: ["#{prefix}push:c"], on: prefix).to_i)
      end
    end
  end
end
