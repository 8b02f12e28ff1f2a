# frozen_string_literal: true

require_relative "pace"
require_relative "processes"

# A server of one contestant for some seconds: without work, or while pushers push by a schedule. What it cost, and how late the jobs were.
class Spell
  LEAD = 3.5 # seconds until the first push: the server has its leases and subscriptions, the pushers are loaded
  WARM = 1.5 # seconds of pushes that do not count
  DRAIN = 1.5 # seconds in which the last jobs may be performed
  # seconds: of the window; redis_cpu, worker_cpu: seconds; commands; jobs: performed in the window; backlog: those of the second queue;
  # lates: of the jobs pushed in the window the seconds until they were performed, ascending, Infinity for those that were not
  Figures = Struct.new(:seconds, :redis_cpu, :worker_cpu, :commands, :jobs, :backlog, :lates) do
    # @return [Float] milliseconds
    def late(share) = lates[(lates.size * share).to_i] * 1000
  end

  # @param backlog [Integer] jobs of a second queue, which the server drains meanwhile; 0: there is no second queue
  def initialize(contestant, redis, rate, seconds, backlog: 0)
    @contestant = contestant
    @redis = redis
    @rate = rate
    @seconds = seconds
    @backlog = backlog
  end

  # @return [Figures]
  def measure
    @redis.flush
    @contestant.fill(@backlog) if @backlog.positive?
    @contestant.serve(@backlog.positive? ? :both : :note) do |pid|
      @pace = Pace.new(@rate, @contestant.now + LEAD, WARM + @seconds)
      pushers = @pace.pushers.map { |environment| @contestant.run(:pace, environment) }
      watch(pid)
      pushers.each { |pusher| Process.wait(pusher) }
      sleep DRAIN
    end
    figures
  end

  private

  def watch(pid)
    @readings = [@pace.start + WARM, @pace.start + WARM + @seconds].map do |time|
      sleep [time - @contestant.now, 0].max
      [@contestant.now, @redis.cpu_seconds, Processes.cpu_seconds(pid), @redis.calls]
    end
  end

  def figures
    begin_at, end_at = @readings.map(&:first)
    costs = @readings.transpose.map { |before, after| after - before }
    noted = @rate.zero? && @backlog.zero? ? [] : @contestant.notes
    ours, backlog = noted.partition { |_, pushed| pushed.positive? }
    in_window = ->((performed, _)) { performed.between?(begin_at, end_at) }
    check_backlog(backlog, end_at)
    Figures.new(*costs, ours.count(&in_window), backlog.count(&in_window), lates(ours))
  end

  # A job that was never performed is late without end; pushed or not, it was on the schedule.
  def lates(notes)
    counted = notes.select { |_, pushed| pushed >= @pace.start + WARM }
    counted.map { |performed, pushed| performed - pushed }.sort + ([Float::INFINITY] * (@pace.jobs - notes.size))
  end

  def check_backlog(notes, end_at)
    return if @backlog.zero? || notes.map(&:first).max.to_f > end_at

    raise "the backlog of #{@backlog} jobs was drained before the end"
  end
end
