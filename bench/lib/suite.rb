# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "entrants"
require_relative "environment"
require_relative "facts"
require_relative "idle"
require_relative "missing"
require_relative "page"
require_relative "program"
require_relative "race"
require_relative "measured_redis"
require_relative "results"
require_relative "settings"

# Blank jobs through Seriatim and its peers in one run on one redis-server of its own.
class Suite
  QUEUES = [1, 200, 1000].freeze
  PEERS_WAITING = 100_000 # jobs, for the figure of memory; less of who is slow to push

  def self.run = Dir.mktmpdir("seriatim-bench-") { |folder| new(folder).run }

  def initialize(folder)
    @folder = folder
    @redis = MeasuredRedis.new
    @missing = Missing.new
    @facts = Facts.all(@redis)
  end

  # What was measured until then is written, whatever ends it.
  def run
    contestants = Entrants.new(@redis, @folder, @missing, @facts).enter(Entrants::NAMES.select { |name| Settings.wanted?(name) })
    @results = Results.new(contestants, Race.new(contestants, @missing), @missing)
    measure(contestants)
  rescue Exception => e # also signals
    @missing.note("all that would have followed: the run ended by #{e.class}")
    raise
  ensure
    @redis.remove
    publish if @results
  end

  private

  def measure(contestants)
    @results.race.run
    measure_latency(contestants.select { |contestant| contestant.can?(:note) && contestant.takes_part?(:latency) })
    contestants.each { |contestant| measure_memory(contestant) if measures_memory?(contestant) }
    ruby = contestants.find { |contestant| contestant.can?(:idle) }
    QUEUES.each { |queues| keep(:idle, queues, "idle with #{queues} queues") { Idle.new(ruby, @redis).cost(queues) } } if ruby
    Program::NAMES.each { |name| keep(:programs, name, name) { Program.run(name) } if Settings.wanted?(name) }
  end

  # They take turns, as in the race; of each share the median of the rounds counts.
  def measure_latency(contestants)
    rounds = Hash.new { |all, name| all[name] = [] }
    contestants.cycle(Settings::ROUNDS) do |contestant|
      @missing.attempt("#{contestant.title}, latency") { rounds[contestant.name] << Idle.new(contestant, @redis).latency }
    end
    rounds.each { |name, rows| keep(:latency, name, "#{name}, latency") { rows.transpose.map { |times| times.sort[times.size / 2] } } }
  end

  def measure_memory(contestant)
    keep(:memory, contestant.name, "#{contestant.title}, memory") { contestant.memory(waiting(contestant)) }
  end

  # All of ours write the same: one is enough.
  def measures_memory?(contestant) = contestant.ours? ? contestant == @results.contestants.first : contestant.takes_part?(:bulk)

  def waiting(contestant)
    contestant.ours? ? Settings::JOBS : [PEERS_WAITING, @results.race.counts[[contestant.name, :bulk]]].compact.min
  end

  def keep(what, key, title)
    figures = @missing.attempt(title) { yield } or return
    @results[what][key] = figures
    puts "#{title}: #{figures.inspect}" unless what == :programs
  end

  def publish
    page = Page.new(@results, @facts)
    puts "", page.tables
    FileUtils.mkdir_p(Settings::PAGES)
    page.plots.each { |name, svg| File.write("#{Settings::PAGES}/#{name}", svg) }
    File.write("#{Settings::PAGES}/speed.md", page.to_s)
  end
end
