# frozen_string_literal: true

require "digest"
require "fileutils"
require "tempfile"
require_relative "../../support/redis_server"

# A clock of the day that processes started with its environment share, and that may be moved while they run. libfaketime
# would do, but redis-server with jemalloc does not start under it.
class Clock
  SOURCE = File.join(__dir__, "clock.c")
  FOLDER = File.expand_path("../../../tmp/crash", __dir__)

  def self.library
    @library ||= File.join(FOLDER, "clock-#{Digest::SHA256.file(SOURCE).hexdigest[0, 16]}.so").tap do |path|
      next if File.exist?(path)

      FileUtils.mkdir_p(FOLDER)
      system(ENV.fetch("CC", "cc"), "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", SOURCE, "-o", "#{path}.#{Process.pid}") or raise "cc failed"
      File.rename("#{path}.#{Process.pid}", path)
    end
  end

  # @param seconds [Numeric] ahead of the machine's clock; negative: behind it
  def initialize(seconds = 0)
    @file = Tempfile.new("clock", binmode: true)
    set(seconds)
  end

  def set(seconds)
    @file.pwrite([(seconds * 1_000_000).to_i].pack("q"), 0)
  end

  def environment = { "LD_PRELOAD" => Clock.library, "CLOCK_SHIFT" => @file.path }
end

# A Redis with a clock of its own.
class ShiftedRedis < RedisServer
  attr_reader :clock

  def initialize(*arguments)
    @clock = Clock.new
    super
  end

  private

  def environment = clock.environment
end
