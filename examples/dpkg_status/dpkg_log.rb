# frozen_string_literal: true

# dpkg_log.rb - what dpkg did (its log) and where that ended (dpkg-query), read together at one moment.
require "zlib"

# One status line: "2026-05-09 10:01:02 status unpacked vim:amd64 2:9.0.1378-2". `number` counts over all logs.
LogLine = Struct.new(:number, :time, :state, :package, :version)

class DpkgLog
  ENOUGH = 200 # status lines, fewer show nothing
  RECORDED = File.join(__dir__, "recorded")
  QUERY = ["dpkg-query", "--show", "--showformat", '${Package}:${Architecture} ${db:Status-Status}\n'].freeze

  # This machine's, or the recorded one where dpkg is unknown or has logged too little.
  def self.read
    log = of_this_machine
    log && log.lines.size >= ENOUGH ? log : recorded
  end

  # Both are read again when dpkg wrote meanwhile.
  def self.of_this_machine
    10.times do
      text = text_of(rotated_logs)
      installed = IO.popen(QUERY, &:read)
      return new("/var/log/dpkg.log", text, installed) if text == text_of(rotated_logs)

      sleep 1
    end
    nil
  rescue SystemCallError
    nil
  end

  def self.recorded
    new("the recorded log", text_of(["#{RECORDED}/dpkg.log.gz"]), text_of(["#{RECORDED}/dpkg-query.txt.gz"]))
  end

  # Oldest first: dpkg.log.12.gz ... dpkg.log.2.gz, dpkg.log.1, dpkg.log.
  def self.rotated_logs
    Dir["/var/log/dpkg.log*"].grep(/log(\.\d+)?(\.gz)?\z/).sort_by { |path| -path[/\d+/].to_i }
  end

  def self.text_of(paths)
    paths.map { |path| path.end_with?(".gz") ? Zlib::GzipReader.open(path, &:read) : File.read(path) }.join
  end

  private_class_method :of_this_machine, :recorded, :rotated_logs, :text_of

  attr_reader :name, :lines

  def initialize(name, text, installed)
    @name = name
    @lines = text.lines.each.with_index(1).filter_map { |line, number| status_line(line, number) }
    @installed = installed.lines.to_h(&:split)
  end

  # Where each logged package is now. What dpkg-query does not know is not installed.
  def statuses
    @statuses ||= packages.reject { |package| replaced?(package) }
                          .to_h { |package| [package, @installed.fetch(package, "not-installed")] }
  end

  # Packages that became another architecture's: their log just ends.
  def replaced = packages.select { |package| replaced?(package) }

  def packages = lines.map(&:package).uniq.sort

  private

  def status_line(line, number)
    day, clock, event, state, package, version = line.scrub.split
    LogLine.new(number, "#{day} #{clock}", state, package, version) if event == "status" && package
  end

  def replaced?(package)
    return false if @installed.key?(package)

    @names ||= @installed.keys.to_h { |known| [known.split(":").first, true] }
    last_states[package] != "not-installed" && @names.key?(package.split(":").first)
  end

  def last_states = @last_states ||= lines.to_h { |line| [line.package, line.state] }
end
