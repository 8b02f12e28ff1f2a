# frozen_string_literal: true

# What /proc tells of a process and those it started.
module Processes
  module_function

  def family(pid)
    [pid, *Dir["/proc/#{pid}/task/*/children"].flat_map { |path| File.read(path).split.flat_map { |child| family(child) } }]
  end

  # Bytes that they held in memory at their most.
  def peak_memory(pid) = family(pid).sum { |each| File.read("/proc/#{each}/status")[/^VmHWM:\s+(\d+)/, 1].to_i * 1024 }

  # @return [Array(Integer, Integer, Integer)] bytes of PSS and of RSS, and how many processes have them
  def memory(pid)
    pids = family(pid)
    rollups = pids.map { |each| File.read("/proc/#{each}/smaps_rollup") }
    [*%w[Pss Rss].map { |field| rollups.sum { |rollup| rollup[/^#{field}:\s+(\d+)/, 1].to_i * 1024 } }, pids.size]
  end

  def cpu_seconds(pid) = family(pid).flat_map { |each| Dir["/proc/#{each}/task/*/schedstat"] }.sum { |path| File.read(path).to_i } / 1e9
end
