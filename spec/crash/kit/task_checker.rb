# frozen_string_literal: true

require_relative "checker"

# Judges a journal of payloads that are done by themselves, each with a checkpoint behind it.
#
# undone   :: a payload began again whose checkpoint was confirmed.
# repeated :: a payload began again that was neither the one in flight (begun, and without a confirmed checkpoint) when its process was
#             killed or lost its lease, nor the one with which its run failed or was snoozed.
#
# Such a payload has ended with its own line ("did"), whatever becomes of its run.
class TaskChecker < Checker
  Task = Struct.new(:pid, :confirmed, :may_repeat)

  attr_reader :undone, :repeated, :in_flight

  # in_flight: the most payloads of an id that were in flight when a process was killed.
  def initialize(lines)
    @tasks = Hash.new { |ids, id| ids[id] = {} } # by number
    @open_tasks = Hash.new { |pids, pid| pids[pid] = Hash.new { |ids, id| ids[id] = {} } } # those in flight
    @undone = []
    @repeated = []
    @in_flight = 0
    super
  end

  def faults
    super.merge({ undone: undone, repeated: repeated }.reject { |_, list| list.empty? }
                  .transform_values { |list| [list.size, *list.first(5)] })
  end

  # Whoever was not killed has settled its last run of the id.
  def on_start(line)
    @open_tasks.each_value { |ids| ids.delete(key(line)) }
    super
  end

  def on_task(line)
    number = line.numbers.first
    tasks = @tasks[key(line)]
    judge_repeat(line, number, tasks[number]) if tasks[number]
    tasks[number] = Task.new(line.pid, false, false)
    @open_tasks[line.pid][key(line)][number] = tasks[number]
  end

  def on_did(line)
    run = run_of(line)
    @ids[key(line)].ended[line.numbers.first] = true if run && !run.void
  end

  # Of all payloads up to this one.
  def on_confirmed(line)
    @open_tasks[line.pid][key(line)].delete_if do |number, task|
      task.confirmed = true if number <= line.numbers.first
    end
  end

  def on_snooze(line)
    last_may_repeat(line)
    close(@ids[key(line)], line.fence)
  end

  def on_fail(line)
    last_may_repeat(line)
    super
  end

  def on_killed(line)
    ids = @open_tasks.delete(line.pid) || {}
    @in_flight = [@in_flight, *ids.each_value.map(&:size)].max
    ids.each_value { |tasks| tasks.each_value { |task| task.may_repeat = true } }
    super
  end

  private

  def run_of(line) = @ids[key(line)].open[line.fence]

  def last_may_repeat(line)
    @open_tasks[line.pid][key(line)].values.last&.may_repeat = true
  end

  def judge_repeat(line, number, task)
    name = "#{key(line)} #{number} pid #{line.pid} after #{task.pid}"
    return undone << name if task.confirmed

    @repeated << name unless task.may_repeat || lapsed?(task.pid, line.time)
  end
end
