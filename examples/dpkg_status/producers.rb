# frozen_string_literal: true

# producers.rb - four processes that push the lines of the log.
require "json"

class Producers
  COUNT = 4

  # Deals the lines out without any order: the scores must bring it back.
  def self.deal_shuffled(lines) = lines.shuffle.each_slice((lines.size / COUNT.to_f).ceil).to_a

  # Each package belongs to one producer.
  def self.deal_packages(lines)
    lines.group_by(&:package).values.each_with_index.group_by { |_, at| at % COUNT }.values
         .map { |hand| hand.flat_map(&:first).sort_by(&:number) }
  end

  # Starts a producer for each list of lines.
  # @param seconds [Numeric, nil] that its pushes are spread over; nil: at once
  def initialize(language, lists, seconds: nil)
    @processes = lists.map { |lines| start([*language.producer, *seconds&.to_s], language.variables, lines) }
  end

  def running? = @processes.any?(&:alive?)

  # @return [self] when all have ended
  def wait
    @processes.each(&:join)
    self
  end

  def kill
    @processes.select(&:alive?).each { |process| Process.kill(:KILL, process.pid) }
    wait
  end

  private

  def start(command, variables, lines)
    input, output = IO.pipe
    pid = Process.spawn(variables, *command, in: input, out: File::NULL, pgroup: true)
    input.close
    lines.each { |line| output.puts(JSON.generate(line.to_h)) }
    output.close
    Process.detach(pid)
  end
end
