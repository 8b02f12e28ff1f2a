# frozen_string_literal: true

require_relative "journal"

# Judges a journal. The numbers of an id are pushed in ascending order, so:
#
# lost       :: pushed, and no run that counts ended with it. As sets: a maximum would hide holes.
# reordered  :: a run began with a number while a smaller one of its id had not ended and did not come before it.
# concurrent :: a run began while another of its id was open in a process that lived and was never frozen in it.
# unfenced   :: a run began with a fence that is not greater than all before.
# repeated   :: began more than once. Right only after a death or a freeze.
# charged    :: began with another retry_count than -1.
# cut_short  :: how many processes died in a run; begun: how many runs there were.
# stale      :: runs that a thawed process began with what it had claimed before it froze. Their settles must be refused.
# accepted   :: Redis accepted the report of a popper whose run was over: its time to run had ended, and another process was free to
#               take the id.
# refused    :: Redis refused the report of a popper within the time to run.
#
# A run that was open while its process was frozen, or is stale, counts for nothing: another process was free to take it. So it
# is with a process whose heartbeat lapsed, because the machine gave it no time; but only where another did take it (late).
# A popper has no heartbeat: its run is over when its time to run has passed since its fence, which is a time of Redis in us.
# Whoever freezes a popper lets it go on after that time only.
class Checker
  Run = Struct.new(:pid, :fence, :numbers, :void)
  Id = Struct.new(:pushed, :ended, :begun, :open, :unreported, :fence, :low)
  # What a time of the journal lacks to a time of Redis, in seconds; and how exactly journals are written.
  # The largest of some: the second clock is read too late if the process stands still before it.
  TO_REDIS = Array.new(20) { Process.clock_gettime(Process::CLOCK_REALTIME) - Process.clock_gettime(Process::CLOCK_MONOTONIC) }.max
  EXACT = 0.01

  attr_reader :lost, :reordered, :concurrent, :unfenced, :charged, :stale, :void, :late, :accepted, :refused, :turned_away, :begun, :cut_short

  def initialize(lines)
    @ids = Hash.new { |hash, key| hash[key] = Id.new([], {}, Hash.new { |pids, number| pids[number] = [] }, {}, {}, 0, 0) }
    @begun = @cut_short = 0
    @thawed = {}
    @ttr = {} # pid of a popper => seconds
    @open_of = Hash.new { |hash, pid| hash[pid] = {}.compare_by_identity } # pid => {run => its id and fence}
    @lapses = Hash.new { |hash, pid| hash[pid] = [] }
    @reordered, @concurrent, @unfenced, @charged, @stale, @void, @late, @accepted, @refused, @turned_away = Array.new(10) { [] }
    lines.each { |line| @ids[key(line)].pushed.concat(line.numbers) if line.kind == "pushed" }
    lines.each { |line| @lapses[line.pid] << line.time if line.kind == "lapsed" }
    @ids.each_value { |id| id.pushed.sort! }
    lines.each { |line| public_send(:"on_#{line.kind}", line) }
    @lost = @ids.flat_map { |name, id| (id.pushed - id.ended.keys).map { |number| "#{name} #{number}" } }
  end

  # Numbers that began more than once, each with the processes that began them.
  def repeats
    @ids.each_with_object({}) do |(name, id), found|
      id.begun.each { |number, pids| found["#{name} #{number}"] = pids if pids.size > 1 }
    end
  end

  def repeated = repeats.keys

  # Numbers that ran and were never pushed.
  def invented = @ids.flat_map { |name, id| (id.ended.keys - id.pushed).map { |number| "#{name} #{number}" } }

  # The lists that must be empty after any run.
  def faults
    { lost: lost, invented: invented, reordered: reordered, concurrent: concurrent, unfenced: unfenced, accepted: accepted, refused: refused }
      .reject { |_, list| list.empty? }.transform_values { |list| [list.size, *list.first(5)] }
  end

  # The lists that must also be empty where no process died or froze.
  def strict_faults
    faults.merge({ repeated: repeated, charged: charged, stale: stale }.reject { |_, list| list.empty? }
                   .transform_values { |list| [list.size, *list.first(5)] })
  end

  def on_pushed(_line); end

  def on_lapsed(_line); end

  def on_popper(line)
    @ttr[line.pid] = line.time
  end

  def on_start(line)
    id = @ids[key(line)]
    name = "#{key(line)} #{line.numbers.first}.. pid #{line.pid}"
    return stale << name if line.fence <= @thawed.fetch(line.pid, 0)
    return late << name if line.fence <= id.fence && (lapsed?(line.pid, line.time) || over?(line.pid, line.fence, id.fence))

    unfenced << "#{name} #{line.fence} after #{id.fence}" if line.fence <= id.fence
    check_open(id, line, name)
    charged << "#{name} #{line.retry_count}" unless line.retry_count == -1
    check_order(id, line, name)
    @begun += 1
    line.numbers.each { |number| id.begun[number] << line.pid }
    id.fence = line.fence
    id.open[line.fence] = run = Run.new(line.pid, line.fence, line.numbers, false)
    @open_of[line.pid][run] = [id, line.fence]
  end

  def on_end(line)
    id = @ids[key(line)]
    run = close(id, line.fence) or return
    return void << "#{key(line)} #{run.numbers.first}.. pid #{run.pid}" if run.void

    run.numbers.each { |number| id.ended[number] = run.fence }
  end

  # Redis has accepted what a popper said of its run, which is closed.
  def on_reported(line)
    run = @ids[key(line)].unreported.delete(line.fence)
    accepted << "#{key(line)} pid #{line.pid} #{line.fence}" if run.nil? || run.void
  end

  # Redis has refused it: what the run ended is to be run again, unless another run has ended it.
  def on_refused(line)
    id = @ids[key(line)]
    run = id.unreported.delete(line.fence)
    over = run.nil? || run.void || over?(line.pid, line.fence, (line.time + TO_REDIS + EXACT) * 1e6)
    (over ? turned_away : refused) << "#{key(line)} pid #{line.pid} #{line.fence}"
    again = id.ended.select { |_, fence| fence == line.fence }.keys
    again.each { |number| id.ended.delete(number) }
    id.low = 0 unless again.empty?
  end

  def on_fail(line)
    close(@ids[key(line)], line.fence)
  end

  def on_killed(line)
    runs = @open_of.delete(line.pid).to_h
    @cut_short += 1 unless runs.empty?
    runs.each_value { |id, fence| id.open.delete(fence) }
    @ttr.delete(line.pid)
  end

  def on_frozen(line)
    @open_of[line.pid].each_key { |run| run.void = true }
  end

  def on_thawed(line)
    @thawed[line.pid] = line.fence
  end

  private

  def key(line) = "#{line.queue}/#{line.id}"

  def close(id, fence)
    run = id.open.delete(fence)
    @open_of[run.pid].delete(run) if run
    id.unreported[fence] = run if run && @ttr[run.pid]
    run
  end

  # Before this time; a driver without time itself may have seen it some moments after.
  def lapsed?(pid, time) = @lapses.key?(pid) && @lapses[pid].any? { |at| at <= time + 0.2 }

  # Is the run of a popper over at this time of Redis, in us?
  def over?(pid, fence, now) = @ttr.key?(pid) && fence + (@ttr[pid] * 1e6) <= now

  def check_open(id, line, name)
    others = id.open.each_value.reject(&:void)
    concurrent << "#{name} with #{others.map(&:pid)}" unless others.all? { |run| lapsed?(run.pid, line.time) || over?(run.pid, run.fence, line.fence) }
    others.each { |run| late << "#{key(line)} #{run.numbers.first}.. pid #{run.pid}" }
    others.each { |run| run.void = true }
  end

  def check_order(id, line, name)
    numbers = line.numbers
    reordered << "#{name} gave #{numbers}" unless numbers.each_cons(2).all? { |a, b| a < b }
    id.low += 1 while id.low < id.pushed.size && id.ended[id.pushed[id.low]]
    at = id.low
    while at < id.pushed.size && id.pushed[at] < numbers.max
      number = id.pushed[at]
      reordered << "#{name} before #{number}" unless id.ended[number] || numbers.include?(number)
      at += 1
    end
  end
end
