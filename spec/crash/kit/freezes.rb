# frozen_string_literal: true

require_relative "kit"

# Stops workers (SIGSTOP) for three lease times and until other nodes have taken their shards, then lets them go on.
class Freezes
  LEASES = 3
  PATIENCE = 100 # seconds until the others have taken what a frozen worker had

  # @param queue [String] its shards' owners tell when the others have it
  # @param workers [Array<ChildProcess>] of which some are frozen at a time
  # @param in_a_run [Boolean] is each to be stopped in a run?
  def initialize(kit, queue, workers, lease:, at_once: 1, in_a_run: false)
    @kit = kit
    @queue = queue
    @workers = workers
    @lease = lease
    @at_once = at_once
    @in_a_run = in_a_run
  end

  # @return [Integer] how many were frozen
  def run(count)
    frozen = 0
    @workers.shuffle(random: @kit.random).cycle.each_slice(@at_once) do |victims|
      victims.each { |victim| freeze(victim) }
      sleep @lease * LEASES
      @kit.eventually(PATIENCE, -> { "still owned: #{@kit.owners(@queue)}" }) { (@kit.owners(@queue) & victims.map(&:pid)).empty? }
      victims.each(&:thaw)
      sleep @lease
      break if (frozen += victims.size) >= count
    end
    frozen
  end

  private

  # Stops the worker; lets it go on and stops it again until it is where it shall be.
  def freeze(worker)
    @kit.eventually(PATIENCE, -> { "no run of #{worker.pid} to stop it in" }) { worker.freeze_if { !@in_a_run || @kit.journal.running?(worker.pid) } }
  end
end
