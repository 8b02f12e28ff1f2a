# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "redis_server"
require_relative "contestant"
require_relative "race"
require_relative "idle"
require_relative "facts"
require_relative "page"

# Nothing of the caller's environment may change what is measured.
ENV.delete_if { |name, _| name.start_with?("LC_", "RUBYOPT", "BUNDLE_", "PYTHON", "CELERY_", "RQ_", "REDIS_", "SERIATIM_", "RAILS_", "RACK_") }
ENV["LC_ALL"] = "C.UTF-8"

# Blank jobs through Seriatim and its peers of one language, in one run on one redis-server; writes the language's page.
class Benchmark
  WAITING = 100_000
  QUEUES = [1, 200].freeze
  PAGES = "#{Contestant::ROOT}/docs/benchmarks"

  # @param side [Module] FromRuby or FromPython
  def self.run(side) = Dir.mktmpdir("seriatim-bench-") { |folder| new(side, folder).run }

  def initialize(side, folder)
    @side = side
    @folder = folder
    @redis = RedisServer.new(folder)
  end

  def run
    ours = @side.seriatim(@redis, @folder)
    contestants = [ours, *peers]
    race = Race.new(contestants)
    race.run
    idle = Idle.new(ours, @redis)
    publish Page.new(side: @side, titles: contestants.to_h { |contestant| [contestant.name, contestant.title] }, race: race,
                     memory: contestants.to_h { |contestant| [contestant.name, contestant.memory(WAITING)] },
                     latency: idle.latency, idle: QUEUES.to_h { |queues| [queues, idle.cost(queues)] },
                     facts: Facts.all(@redis).merge(@side.facts))
  ensure
    @redis.stop
  end

  private

  def peers
    there, absent = @side::PEERS.keys.partition { |name| @side.install(name) }
    absent.each { |name| warn "", "!!! #{name} could not be installed: it is SKIPPED, the comparison is incomplete", "" }
    there.map { |name| @side.peer(name, @redis, @folder) }
  end

  def publish(page)
    puts "", page.tables
    FileUtils.mkdir_p(PAGES)
    File.write("#{PAGES}/#{@side::PAGE}", page.to_s)
  end
end
