# frozen_string_literal: true

require "etc"

# What the numbers hang on, whatever the language.
module Facts
  module_function

  def all(redis)
    { "processor" => processor, "cores" => Etc.nprocessors, "system" => system_name, "kernel" => Etc.uname[:release][/\A\d+\.\d+/],
      "redis" => redis.version, "load average at the start" => load_average }
  end

  def processor = File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] || Etc.uname[:machine]
  def system_name = File.read("/etc/os-release")[/^PRETTY_NAME="(.+)"/, 1]
  def load_average = File.read("/proc/loadavg").split.first(3).join(", ")
end
