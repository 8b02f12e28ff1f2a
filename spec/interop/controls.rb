# frozen_string_literal: true

# A journal in which something went wrong after all: the checker must see it, or its silence means nothing.
class Controls
  # @param lines [Array<Journal::Line>] of a journal without faults
  def initialize(lines)
    @lines = lines
  end

  # What was done to the journal => whether the checker saw it.
  def outcomes
    { "an end is missing" => :lost, "two runs are exchanged" => :reordered, "a run begins in another" => :concurrent,
      "a fence falls" => :unfenced }
      .to_h { |name, fault| [name, Checker.new(send(fault)).faults.key?(fault)] }
  end

  private

  # The id's last numbers, which ran once.
  def lost
    first, = runs.select { |start, _| @lines.count { |line| line.kind == "start" && same?(line, start) && line.numbers.include?(start.numbers.last) } == 1 }
                 .max_by { |start, _| start.numbers.last }
    @lines - [end_of(first)]
  end

  def reordered
    (first, second), = pairs
    exchange = { first => second.numbers, second => first.numbers }.compare_by_identity
    @lines.map { |line| exchange.key?(line) ? line.dup.tap { |copy| copy.numbers = exchange[line] } : line }
  end

  def concurrent
    (first, second), = pairs
    ended = end_of(first)
    (@lines - [ended]).flat_map { |line| line.equal?(second) ? [line, ended] : [line] }
  end

  def unfenced
    _, second = pairs.first
    @lines.map { |line| line.equal?(second) ? line.dup.tap { |copy| copy.fence = 1 } : line }
  end

  def runs = @runs ||= @lines.select { |line| line.kind == "start" }.filter_map { |start| [start, end_of(start)] if end_of(start) }

  # Starts of one id, the second right after the first had ended, neither repeating the other.
  def pairs
    @pairs ||= runs.map(&:first).group_by { |start| [start.queue, start.id] }.values
                   .flat_map { |starts| starts.each_cons(2).to_a }.select { |first, second| (first.numbers & second.numbers).empty? }
  end

  def end_of(start)
    @ends ||= @lines.select { |line| line.kind == "end" }.to_h { |line| [[line.queue, line.id, line.fence], line] }
    @ends[[start.queue, start.id, start.fence]]
  end

  def same?(line, other) = line.queue == other.queue && line.id == other.id
end
