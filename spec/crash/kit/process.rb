# frozen_string_literal: true

# A process of this kit with its output in a file; what the driver does to it goes into the journal. It is a child of this
# process, or was left to it.
class ChildProcess
  attr_reader :pid, :status

  def initialize(pid, log_path, journal)
    @pid = pid
    @log_path = log_path
    @journal = journal
  end

  def log = File.read(@log_path)

  def wait_until_started(seconds = 120)
    until_true(seconds, "does not start") { log.include?(" start ") || !alive? }
    raise "did not start: #{log}" unless alive?
  end

  def runs_as?(pid) = self.pid == pid

  def signal(name) = Process.kill(name, pid)

  # Reaps the process if it has ended.
  def alive?
    reap(Process::WNOHANG)
    @status.nil?
  end

  # Its exit code, nil if a signal killed it.
  def wait(seconds = 120)
    until_true(seconds, "does not end") { !alive? }
    status.exitstatus
  end

  # @return [Boolean] it did, or had ended before
  def end_within(seconds)
    deadline = Journal.now + seconds
    IO.select(nil, nil, nil, 0.003) while (lives = alive?) && Journal.now < deadline
    !lives
  end

  # Returns when it is dead, and the journal says so.
  def kill
    return unless alive?

    signal(:KILL)
    reap(0)
  end

  def stop(seconds = 120)
    signal(:TERM)
    wait(seconds)
  end

  # Stops it, and lets it go on at once if the block does not want it stopped here.
  # @return [Boolean]
  def freeze_if
    signal(:STOP)
    until_true(60, "does not stop") { File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] == "T" }
    wanted = yield
    wanted ? @journal.write(:frozen, pid) : signal(:CONT)
    wanted
  end

  def thaw
    @journal.write(:thawed, pid, Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond))
    signal(:CONT)
  end

  def remove
    return unless alive?

    signal(:CONT)
    kill
  end

  # Seconds of processor time so far.
  def cpu = File.read("/proc/#{pid}/stat").split(") ", 2).last.split.values_at(11, 12).sum(&:to_f) / 100

  private

  def reap(flags)
    return if @status

    _, @status = Process.wait2(pid, flags)
    @journal.write(:killed, pid) if @status
  end

  def until_true(seconds, failure)
    deadline = Journal.now + seconds
    until yield
      raise "#{failure} within #{seconds} s: #{log}" if Journal.now > deadline

      IO.select(nil, nil, nil, 0.01)
    end
  end
end

# One that this process starts.
class SpawnedProcess < ChildProcess
  def initialize(command, variables, log_path, journal)
    super(Process.spawn(variables, *command, out: log_path, err: %i[child out], in: File::NULL), log_path, journal)
  end
end

# An nginx with one worker process, which runs jobs.
class NginxProcess < SpawnedProcess
  attr_reader :port

  def initialize(port, ...)
    @port = port
    super(...)
  end

  # Is it the process, or its worker process?
  def runs_as?(pid) = super || log.include?("#{pid}##{pid}:")

  # Until it pushes nothing more.
  def wait_for_producer = until_true(150, "pushes") { log.include?("the producer has ended") }

  # Lets what runs end.
  def stop(seconds = 120)
    signal(:QUIT)
    wait(seconds)
  end

  # Ends its worker process, too, which outlives a master that is killed.
  def remove
    return unless alive?

    signal(:STOP)
    workers = File.read("/proc/#{pid}/task/#{pid}/children").split.map(&:to_i)
    kill
    workers.each { |worker| Process.kill(:KILL, worker) }
  end
end
