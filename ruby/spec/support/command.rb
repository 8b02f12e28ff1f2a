# frozen_string_literal: true

require "fileutils"
require "io/console"
require "open3"
require "pty"
require "rbconfig"
require "tmpdir"

# The command `seriatim` in a process of its own.
class Command
  EXE = File.expand_path("../../exe/seriatim", __dir__)
  # Where this process found the library and its extension.
  PATHS = $LOAD_PATH.select { |path| File.exist?(File.join(path, "seriatim.rb")) || Dir[File.join(path, "seriatim", "seriatim_native.*")].any? }
                     .map { |path| File.expand_path(path) }.freeze
  RUBY = [RbConfig.ruby, *PATHS.flat_map { |path| ["-I", path] }].freeze
  NEUTRAL = { "RAILS_ENV" => nil, "RACK_ENV" => nil, "APP_ENV" => nil, "SERIATIM_ENV" => nil, "REDIS_URL" => nil,
              "SERIATIM_REDIS_URL" => nil, "REDIS_PROVIDER" => nil }.freeze

  # Runs it to its end.
  # @param closed [String, nil] what closes some of its standard files in the shell, ">&-"
  # @return [Array(String, Integer)] what it wrote to both outputs, and its exit code
  def self.run(*arguments, env: {}, redis: REDIS.url, dir: Dir.pwd, closed: nil)
    output, status = Open3.capture2e({ **NEUTRAL, "REDIS_URL" => redis, **env }, *words(arguments, closed), chdir: dir)
    [output, status.exitstatus]
  end

  def self.words(arguments, closed = nil) = [*(["sh", "-c", "exec \"$@\" #{closed}", "sh"] if closed), *RUBY, EXE, *arguments]

  # The same with stderr on a terminal of 80 columns, which changes no byte.
  # @return [Array(String, String, Integer)] what it wrote to the terminal, to its standard output, and its exit code
  def self.run_on_terminal(*arguments, redis: REDIS.url)
    PTY.open do |ours, theirs|
      theirs.raw!
      theirs.winsize = [24, 80]
      output, status = Open3.capture2({ **NEUTRAL, "REDIS_URL" => redis }, *RUBY, EXE, *arguments, err: theirs)
      [read_terminal(ours), output, status.exitstatus]
    end
  end

  # What was written to it until now.
  def self.read_terminal(terminal)
    text = +""
    loop { text << terminal.read_nonblock(4096) }
  rescue IO::WaitReadable
    text
  end
  private_class_method :read_terminal

  attr_reader :pid

  # Starts it, and waits until it says that it runs.
  def initialize(*arguments, env: {}, redis: REDIS.url, wait: true, dir: Dir.pwd, closed: nil)
    @folder = Dir.mktmpdir("seriatim-command")
    @pid = spawn({ **NEUTRAL, "REDIS_URL" => redis, **env }, *self.class.words(arguments, closed), out: log_path, err: %i[child out], chdir: dir)
    wait_for(/start node/) if wait
  end

  def log = File.binread(log_path).force_encoding(Encoding::UTF_8).scrub

  # Until the log holds it.
  def wait_for(pattern, seconds: 60)
    deadline = clock + seconds
    until (found = log[pattern])
      raise "no #{pattern.inspect} in:\n#{log}" if clock > deadline || Process.wait2(@pid, Process::WNOHANG)

      sleep 0.02
    end
    found
  end

  def signal(name) = Process.kill(name, @pid)

  # Sends it and waits until its handler has it: two that wait would be one.
  def signal_taken(name)
    signal(name)
    sleep 0.001 until File.read("/proc/#{@pid}/status")[/^ShdPnd:\s*(\h+)/, 1].to_i(16).zero?
  end

  # @return [Integer, nil] the exit code; nil when a signal ended it
  def wait(seconds: 60)
    deadline = clock + seconds
    until (ended = Process.wait2(@pid, Process::WNOHANG))
      raise "still runs after #{seconds} s:\n#{log}" if clock > deadline

      sleep 0.01
    end
    @ended = ended.last
    @ended.exitstatus
  end

  def stop(name = "TERM")
    signal(name)
    wait
  end

  def remove
    return if @removed

    Process.kill(:KILL, @pid) && Process.wait(@pid) unless @ended
  rescue Errno::ESRCH, Errno::ECHILD
    nil
  ensure
    @removed = true
    FileUtils.rm_rf(@folder)
  end

  private

  def log_path = File.join(@folder, "log")
  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
