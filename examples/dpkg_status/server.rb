# frozen_string_literal: true

# server.rb - one `seriatim` server process.
class Server
  def initialize(language, log)
    @log = log
    @process = Process.detach(Process.spawn(language.variables, *language.server, out: @log, err: %i[child out], pgroup: true))
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
