# frozen_string_literal: true

require_relative "kit"

# Stops workers (SIGSTOP) while they run jobs, for three lease times and until other nodes have taken their shards, then lets them go on.
class Freezes
  LEASES = 3
  PATIENCE = 100 # seconds until the others have taken what a frozen worker had

  # @param queue [String] its shards' owners tell when the others have it
  # @param workers [Array<ChildProcess>] of which some are frozen at a time
  def initialize(kit, queue, workers, lease:, at_once: 1)
    @kit = kit
    @queue = queue
    @workers = workers
    @lease = lease
    @at_once = at_once
  end

  # @return [Integer] how many were frozen
  def run(count)
    frozen = 0
    @workers.shuffle(random: @kit.random).cycle.each_slice(@at_once) do |victims|
      victims.each { |victim| victim.freeze_if { true } }
      sleep @lease * LEASES
      @kit.eventually(PATIENCE, -> { "still owned: #{@kit.owners(@queue)}" }) { (@kit.owners(@queue) & victims.map(&:pid)).empty? }
      victims.each(&:thaw)
      sleep @lease
      break if (frozen += victims.size) >= count
    end
    frozen
  end
end
