# frozen_string_literal: true

# status_worker.rb - the application that the servers load: it follows what dpkg did to each package.
require "seriatim"
require_relative "journal"

module StatusWorker
  extend Seriatim::Worker
  self.shards_count = 12

  SECONDS_PER_LINE = Float(ENV.fetch("DEMO_SECONDS_PER_LINE", "0.002"))
  BAD_LUCK = 0.03 # of all runs

  def self.retry_in(_count) = rand(0.1..0.3)

  # All lines of a package that wait, by score: by their number in the log.
  def self.perform(lines_by_package, batch)
    lines_by_package.each do |package, lines|
      run = { package: package, fence: batch.fence(package), pid: Process.pid }
      unlucky = lines.sample if rand < BAD_LUCK
      lines.each { |line| line.equal?(unlucky) ? fail_at(line, run) : apply(line, run) }
    end
  end

  # The real work would be here; the journal says how far it came.
  def self.apply(line, run)
    Journal.write("begin", number: line["number"], **run)
    sleep SECONDS_PER_LINE
    Journal.write("end", number: line["number"], state: line["state"], **run)
  end

  def self.fail_at(line, run)
    Journal.write("begin", number: line["number"], **run)
    Journal.write("failed", **run)
    raise "bad luck"
  end
end

Seriatim.workers = [StatusWorker]
Seriatim.lease_time = 2 # seconds after which a killed server's packages are the other's
