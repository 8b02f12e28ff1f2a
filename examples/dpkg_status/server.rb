# frozen_string_literal: true

# server.rb - one `seriatim` server process.
class Server
  ROOT = File.expand_path("../..", __dir__)
  COMMAND = ["ruby", "-I", "#{ROOT}/ruby/lib", "#{ROOT}/ruby/exe/seriatim", "-r", "#{__dir__}/status_worker.rb"].freeze

  def initialize(log)
    @log = log
    @process = Process.detach(Process.spawn(*COMMAND, out: @log, err: %i[child out], pgroup: true))
  end

  def pid = @process.pid
  def running? = @process.alive?
  def kill = signal(:KILL)
  def freeze = (Process.kill(:STOP, pid) if running?)
  def thaw = (Process.kill(:CONT, pid) && nil if running?)

  # @return [Boolean] it ended by itself, with exit code 0
  def stop = signal(:TERM).success?

  def log = File.read(@log)

  private

  # @return [Process::Status] how it ended
  def signal(name)
    Process.kill(name, pid) if running?
    @process.value
  end
end
