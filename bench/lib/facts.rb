# frozen_string_literal: true

require "etc"

# What the numbers hang on, whatever the language.
module Facts
  TICKS = -> { File.read("/proc/stat")[/^cpu (.*)/, 1].split.map(&:to_f) }
  STEAL = 7 # its place among them; guest time, behind it, stands among the others, too
  START = TICKS.call

  module_function

  def all(redis)
    { "processor" => processor, "cores" => Etc.nprocessors, "system" => system_name, "kernel" => Etc.uname[:release][/\A\d+\.\d+/],
      "redis" => redis.version, "load average at the start" => load_average }
  end

  def processor = File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] || Etc.uname[:machine]
  def system_name = File.read("/etc/os-release")[/^PRETTY_NAME="(.+)"/, 1]
  # At the end of a run.
  def last = { "load average at the end" => load_average, "taken away by the machine's host, % of the CPU time" => stolen }

  def load_average = File.read("/proc/loadavg").split.first(3).join(", ")

  def stolen
    ticks = TICKS.call.zip(START).map { |now, before| now - before }
    format("%.1f", 100 * ticks[STEAL] / ticks.first(STEAL + 1).sum)
  end
end
