# frozen_string_literal: true

# A journal in which something went wrong after all: the checker must see it, or its silence means nothing.
class Controls
  ENOUGH = 20 # ids

  # @param lines [Array<Journal::Line>] of one queue's journal without faults
  def initialize(lines)
    ids = lines.filter_map(&:id).uniq.first(ENOUGH)
    @lines = lines.select { |line| line.id.nil? || ids.include?(line.id) }
  end

  # What was done to the journal => whether the checker saw it.
  def outcomes
    { "an end is missing" => :lost, "two runs are exchanged" => :reordered, "a run begins in another" => :concurrent,
      "a fence falls" => :unfenced }
      .to_h { |name, fault| [name, Checker.new(send(fault)).faults.key?(fault)] }
  end

  private

  def lost
    ended = end_of(runs.first)
    @lines.reject { |line| line.equal?(ended) }
  end

  def reordered
    (first, second), = pairs
    exchange = { first => second.numbers, second => first.numbers }.compare_by_identity
    @lines.map { |line| exchange.key?(line) ? line.dup.tap { |copy| copy.numbers = exchange[line] } : line }
  end

  def concurrent
    (first, second), = pairs
    ended = end_of(first)
    @lines.reject { |line| line.equal?(ended) }.flat_map { |line| line.equal?(second) ? [line, ended] : [line] }
  end

  def unfenced
    _, second = pairs.first
    @lines.map { |line| line.equal?(second) ? line.dup.tap { |copy| copy.fence = 1 } : line }
  end

  # Starts that have an end, and none of whose numbers began twice.
  def runs = @runs ||= starts.select { |line| end_of(line) && line.numbers.all? { |number| times[[line.id, number]] == 1 } }

  def starts = @starts ||= @lines.select { |line| line.kind == "start" }

  def times = @times ||= starts.flat_map { |line| line.numbers.map { |number| [line.id, number] } }.tally

  # Two runs of one id, one after the other.
  def pairs = @pairs ||= runs.group_by(&:id).values.flat_map { |of_id| of_id.each_cons(2).to_a }

  def end_of(start)
    @ends ||= @lines.select { |line| line.kind == "end" }.to_h { |line| [[line.id, line.fence], line] }
    @ends[[start.id, start.fence]]
  end
end
