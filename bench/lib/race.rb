# frozen_string_literal: true

require_relative "settings"

# Each system in turn, some rounds; what counts is the median.
class Race
  DISCIPLINES = %i[process single together pipelined bulk].freeze
  TRIAL = { process: 2_000, single: 1_000, together: 1_000, pipelined: 10_000, bulk: 10_000 }.freeze # jobs, to find out how many a system gets
  SHARE = { process: 1.0, single: 0.1, together: 0.1, pipelined: 0.3, bulk: 0.3 }.freeze # of the seconds
  MOST = { process: 1_000_000, single: 100_000, together: 100_000, pipelined: 100_000, bulk: 100_000 }.freeze
  OURS = { process: Settings::JOBS, bulk: MOST[:bulk] }.freeze
  # Per second; the rest as Contestant::Processing has it, nil for pushes.
  Run = Struct.new(:rate, :redis_cpu, :commands, :memory)

  attr_reader :counts

  def initialize(contestants, missing)
    @contestants = contestants
    @missing = missing
    @counts = {}
    @failed = {}
    @runs = Hash.new { |runs, key| runs[key] = {} }
  end

  def run
    each_discipline { |contestant, what| @counts[[contestant.name, what]] = size(contestant, what) }
    Settings::ROUNDS.times do |round|
      each_discipline { |contestant, what| measure(contestant, what, round) if @counts[[contestant.name, what]] && !@failed[[contestant.name, what]] }
    end
  end

  # The median; nil if there is no figure.
  def figure(name, what, field = :rate) = middle(@runs[[name, what]].values.map(&field))

  # How many times as much as the other (in `other_what`), by rounds: what slowed the machine down in one slowed down both.
  def ratio(name, other, what, field = :rate, other_what: what)
    theirs = @runs[[other, other_what]]
    middle(@runs[[name, what]].slice(*theirs.keys).map { |round, run| run[field] / theirs[round][field].to_f })
  end

  # Of the rounds, nil for one that failed.
  def rates(name, what) = Array.new(Settings::ROUNDS) { |round| @runs[[name, what]][round]&.rate }

  private

  def middle(numbers) = numbers.sort[numbers.size / 2]

  def each_discipline
    DISCIPLINES.each do |what|
      @contestants.each { |contestant| yield contestant, what if contestant.takes_part?(what) }
    end
  end

  def size(contestant, what)
    @missing.attempt("#{contestant.title}, #{what}") do
      count = calibrate(contestant, what)
      OURS.key?(what) && contestant.ours? ? OURS[what] : count.clamp(TRIAL[what] / 2, MOST[what]).round(what == :bulk ? -4 : -2)
    end
  end

  # How many take it the seconds.
  def calibrate(contestant, what)
    count = TRIAL.fetch(what)
    while (seconds = take(contestant, what, count).first) < 0.5 && count < MOST[what] / 10
      count = (count * [1 / seconds, 10].min).to_i
    end
    count / seconds * Settings::SECONDS * SHARE[what]
  end

  def measure(contestant, what, round)
    count = @counts.fetch([contestant.name, what])
    @failed[[contestant.name, what]] = true
    @missing.attempt("#{contestant.title}, #{what}, round #{round + 1}") do
      seconds, *rest = take(contestant, what, count)
      @runs[[contestant.name, what]][round] = Run.new(count / seconds, *rest)
      puts format("round %d  %-8s %-9s %8d jobs in %6.2f s: %8d/s", round + 1, what, contestant.name, count, seconds, count / seconds)
      @failed.delete([contestant.name, what])
    end
  end

  # @return [Array] the seconds, and for processing what it cost
  def take(contestant, what, count) = [*contestant.public_send(what, count)]
end
