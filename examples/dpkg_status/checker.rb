# frozen_string_literal: true

# checker.rb - what the journal proves. It knows nothing of Seriatim.
class Checker
  attr_reader :folded, :retried, :out_of_order, :posted_again

  def initialize
    @pushed = {}
    @ended = {}
    @runs = {}             # [package, fence] => numbers begun
    @last_run = {}         # number => the run that began it last
    @failed_runs = {}
    @redelivered_runs = {}
    @highest_ended = Hash.new(0)
    @final = {}            # package => [fence, state]
    @open = {}             # number => pid
    @folded = @retried = @out_of_order = @posted_again = 0
  end

  def add(record)
    case record
    in { event: "pushed", numbers:, folded: } then pushed(numbers, folded)
    in { event: "begin", package:, fence:, number:, pid: } then begun(package, [package, fence], number, pid)
    in { event: "end", package:, fence:, number:, state: } then ended(package, fence, number, state)
    in { event: "failed", package:, fence: } then failed([package, fence])
    in { event: "posted again" } then @posted_again += 1
    end
  end

  def messages = @pushed.size
  def done = @ended.size
  def runs = @runs.size
  def redelivered = @redelivered_runs.size
  def lost = (@pushed.keys - @ended.keys).size

  # Whether this process is in the middle of a line.
  def working?(pid) = @open.value?(pid)

  # package => the state that its last line left it in
  def final_states = @final.transform_values(&:last)

  private

  def pushed(numbers, folded)
    numbers.each { |number| @pushed[number] = true }
    @folded += folded
  end

  # Again without a failure: the process of its last run died. A line that was done before may come again that way;
  # one that was not may not follow a higher one.
  def begun(package, run, number, pid)
    before = @last_run[number]
    @redelivered_runs[run] = true if before && before != run && !@failed_runs[before]
    @out_of_order += 1 if number < @highest_ended[package] && !@ended[number]
    @last_run[number] = run
    @runs[run] = true
    @open[number] = pid
  end

  # What an application does that keeps states in a database of its own: a lower fence no longer counts.
  def ended(package, fence, number, state)
    @ended[number] = true
    @open.delete(number)
    @highest_ended[package] = number if number > @highest_ended[package]
    @final[package] = [fence, state] if fence >= @final.fetch(package, [0]).first
  end

  def failed(run)
    @failed_runs[run] = true
    @retried += 1
    @open.delete_if { |number, _| @last_run[number] == run }
  end
end
