# frozen_string_literal: true

class WorstCalls
  # The scripts of two-phase-commit sets.
  module TwoPhaseCommitSets
    ICK = "seriatim:{/ick/K}:"
    ICK_SLICE = 1000 # see core/src/model/stored.h, as the next one
    ICK_SLICE_BYTES = 200_000
    ICK_SLICES = (PAYLOADS / 1000).clamp(1, 100)
    CASES = %i[two_phase_commit_sets].freeze

    # Sets of up to 100 slices: of the most members that a call takes, and of members of the largest size.
    def two_phase_commit_sets
      [[ICK_SLICE, 64], [ICK_SLICE_BYTES / 1024, 1024]].each do |count, bytes|
        members = Array.new(ICK_SLICES * count) { |i| i.to_s.rjust(bytes, "m") }
        two_phase_commit_set(members, count, "members of #{Text.thousands(bytes)} bytes")
      end
    end

    def two_phase_commit_set(members, count, what)
      some = "#{Text.thousands(count)} #{what}"
      members.each_slice(count) { |slice| ick("#{some}, new", :ick_add, *slice.each_with_index.flat_map { |member, i| [i, member] }) }
      _, held = reserve(some, 0)
      ick("#{some}, reserved", :ick_add, *held.first(count).flat_map { |member| [2, member] })
      ick("#{some}, reserved, again", :ick_add, *held.first(count).flat_map { |member| [1, member] })
      token, held = reserve("#{some}, backwash", 1)
      ick("#{some}, added again", :ick_add, *held.first(count).flat_map { |member| [1, member] })
      token, held = reserve("#{some}, exchange", 0, token, *held.first(count))
      ick(some, :ick_commit, "me", token, *held.first(count), keys: 8)
      ick("#{ICK_SLICES} times #{some}", :ick_stats)
      ick("#{ICK_SLICES} times #{some}", :ick_delete)
    end

    # The scripts of a reserve of as many members as a call may list; they move and list fewer if these are large. Returns the token
    # and the members.
    def reserve(name, backwash, ending = "", *members)
      token, listed, again = "", [], ""
      until again == "0"
        token, again, _, *list = ick(name, :ick_reserve, "me", token, ICK_SLICE, listed.size, 30_000_000, backwash, ending, *members, keys: 8)
        listed.concat(list.each_slice(2).map(&:last))
        backwash = 0 if again == "1"
        ending, members = "", []
      end
      [token, listed]
    end

    def ick(name, script, *arguments, keys: 7)
      names = %w[about pset again held tokens ends - cset:me].first(keys).map { |kind| ICK + kind }
      measure(name, script) { @scripts.evaluate(script, names, *arguments) }
    end
  end
end
