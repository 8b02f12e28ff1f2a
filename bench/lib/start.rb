# frozen_string_literal: true

require_relative "pace"
require_relative "processes"
require_relative "settings"

# How soon a server that starts has performed a job that waits for it, and what memory it has when it is idle. The systems take turns.
class Start
  LEAD = 2 # seconds until the pusher is loaded
  IDLE = 4 # seconds from the start to the reading of the memory
  Figures = Struct.new(:seconds, :pss, :rss, :processes) # bytes

  attr_reader :contestants

  def initialize(contestants, redis, missing)
    @contestants = contestants.select { |contestant| contestant.can?(:note) && contestant.takes_part?(:latency) }
    @redis = redis
    @missing = missing
    @figures = Hash.new { |figures, name| figures[name] = [] }
  end

  def run
    @contestants.cycle(Settings::ROUNDS) do |contestant|
      @missing.attempt("#{contestant.title}, start") { note(contestant, measure(contestant)) }
    end
  end

  def measured?(name) = @figures.key?(name)

  # The median of the rounds.
  # @param field [Symbol] of Figures
  def figure(name, field) = @figures[name].map(&field).sort[@figures[name].size / 2]

  private

  def note(contestant, figures)
    @figures[contestant.name] << figures
    puts format("%-8s %4.0f ms, PSS %.1f MB, RSS %.1f MB", contestant.name, figures.seconds * 1000, figures.pss / 1e6, figures.rss / 1e6)
  end

  def measure(contestant)
    @redis.flush
    contestant.finish(:pace, Pace.new(100, contestant.now + LEAD, 0.01).pushers.first) # one job
    begun = contestant.now
    memory = contestant.serve(:note) do |pid|
      sleep IDLE
      Processes.memory(pid)
    end
    (performed, _), = contestant.notes
    Figures.new(performed - begun, *memory)
  end
end
