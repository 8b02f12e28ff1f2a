# frozen_string_literal: true

# count.rb - what every system's job calls: measures from the first job begun to the last one, or notes when each was performed; and
# the schedule of a pusher.
module Count
  LOCK = Mutex.new
  JOBS = Integer(ENV.fetch("BENCH_JOBS", "0"))
  @count = 0
  GRACE = 0.5 # seconds that a pusher may be late at the end
  @notes = []

  # Counts one blank job.
  def self.up
    LOCK.synchronize do
      @first ||= now
      @count += 1
      report(now - @first) if @count == JOBS
    end
  end

  # Notes that a job which counts from `pushed` is performed now; all are written when the process ends.
  def self.note(pushed)
    performed = now
    LOCK.synchronize do
      at_exit { File.write("#{ENV.fetch("BENCH_RESULT")}.notes.#{Process.pid}", @notes.join("\n")) } if @notes.empty?
      @notes << "#{performed} #{pushed}"
    end
  end

  # Yields number after number at its time. BENCH_PACE: jobs a second, start, seconds, and that this is the pusher `turn` of `of`, which
  # share the numbers. A job counts from its time of the schedule; from the end of the sleep if that was too long.
  # @yieldparam number [Integer]
  # @yieldparam pushed [Float] what it counts from
  def self.pace
    rate, start, seconds, turn, of = ENV.fetch("BENCH_PACE").split.map(&:to_f)
    awake = start
    turn.to_i.step(by: of.to_i, to: (rate * seconds).round - 1) do |number|
      due = start + (number / rate)
      break if now > start + seconds + GRACE

      awake = nap_until(due) if now < due
      yield number, [due, awake].max
    end
  end

  def self.nap_until(due)
    while (left = due - now).positive?
      sleep left
    end
    now
  end

  def self.report(text)
    path = ENV.fetch("BENCH_RESULT")
    File.write("#{path}.new", text.to_s)
    File.rename("#{path}.new", path)
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
