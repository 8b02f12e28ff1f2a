# frozen_string_literal: true

# count.rb - what every system's job calls: measures from the first job begun to the last one, or how long each was under way.
module Count
  LOCK = Mutex.new
  JOBS = Integer(ENV.fetch("BENCH_JOBS", "0"))
  @count = 0
  @seconds = []

  # Counts one blank job.
  def self.up
    LOCK.synchronize do
      @first ||= now
      @count += 1
      report(now - @first) if @count == JOBS
    end
  end

  # Notes how long ago a job was pushed.
  def self.note(pushed)
    seconds = now - pushed
    LOCK.synchronize do
      @seconds << seconds
      report(@seconds.join(" ")) if @seconds.size == JOBS
    end
  end

  def self.report(text)
    path = ENV.fetch("BENCH_RESULT")
    File.write("#{path}.new", text.to_s)
    File.rename("#{path}.new", path)
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
