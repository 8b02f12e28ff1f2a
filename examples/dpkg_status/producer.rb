# frozen_string_literal: true

# producer.rb - four processes that push the lines of the log.
require_relative "status_worker"

class Producer
  COUNT = 4

  # Forks one producer for each list of lines; the block says how it pushes them.
  # @return [Array<Thread>] that wait for their ends
  def self.start(lists)
    lists.map do |lines|
      pid = fork do
        trap("INT", "SYSTEM_DEFAULT") # ends without a word
        yield new(lines)
      end
      Process.detach(pid)
    end
  end

  # Deals the lines out without any order: the scores must bring it back.
  def self.deal_shuffled(lines) = lines.shuffle.each_slice((lines.size / COUNT.to_f).ceil).to_a

  # Each package belongs to one producer.
  def self.deal_packages(lines)
    lines.group_by(&:package).values.each_with_index.group_by { |_, at| at % COUNT }.values
         .map { |hand| hand.flat_map(&:first).sort_by(&:number) }
  end

  def initialize(lines)
    @lines = lines
  end

  def push_at_once = @lines.each_slice(100) { |lines| push(lines) }

  # One push a line, spread over so many seconds.
  def push_one_by_one(seconds)
    @lines.each do |line|
      push([line])
      sleep seconds.to_f / @lines.size
    end
  end

  private

  def push(lines)
    result = StatusWorker.perform_async(lines.map { |line| job(line) })
    Journal.write("pushed", numbers: lines.map(&:number), folded: result.folded)
  end

  def job(line)
    job = { id: line.package, payload: line.to_h, score: line.number }
    job.delete(:score) if ENV["DEMO_WITHOUT_SCORES"] == "1" # to see the checker find it
    job
  end
end
