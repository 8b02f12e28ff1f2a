# frozen_string_literal: true

require_relative "settings"
require_relative "spell"

# Each rate in turn, at each rate each system in turn, some rounds; what counts is the median. From all costs goes what the server costs
# without work.
class Trickle
  RATES = ENV.fetch("TRICKLE_RATES", "100,500,2000,8000").split(",").map { |rate| Integer(rate) }.freeze
  IDLE = 0 # the rate at which the cost without work is measured
  BESIDE = 500 # jobs a second beside a backlog
  BACKLOG = 6000 # jobs a second that five threads cannot reach, for they take a millisecond each
  BACKLOGS = { "celery" => 2000 }.freeze # fewer where that is enough: it pushes them one by one
  # us of Redis' CPU and of the server's a job, Redis' commands a job, jobs a second, and ms from push to perform
  FIELDS = %i[redis_cpu worker_cpu commands rate p50 p99 p999].freeze
  SHARES = { p50: 0.5, p99: 0.99, p999: 0.999 }.freeze

  attr_reader :contestants

  def initialize(contestants, redis, missing)
    @contestants = contestants
    @redis = redis
    @missing = missing
    @spells = Hash.new { |spells, key| spells[key] = {} } # [name, rate or :backlog] => round => Spell::Figures
  end

  def run
    Settings::ROUNDS.times do |round|
      [IDLE, *RATES].product(@contestants) { |rate, contestant| keep(contestant, rate, round) { spell(contestant, rate) } }
      @contestants.each { |contestant| keep(contestant, :backlog, round) { spell(contestant, BESIDE, backlog(contestant)) } }
    end
  end

  def measured?(name, rate) = @spells.key?([name, rate]) && @spells.key?([name, IDLE])

  # @param rate [Integer, Symbol] of RATES, or :backlog: BESIDE jobs a second beside a backlog
  # @param field [Symbol] of FIELDS
  # @return [Float, nil] the median of the rounds
  def figure(name, rate, field) = middle(rounds(name, rate, field).values)

  # How many times as much as the other, by rounds: what slowed the machine down in one slowed down both.
  # @return [Float, nil]
  def ratio(name, other, rate, field)
    theirs = rounds(other, rate, field)
    ratios = rounds(name, rate, field).slice(*theirs.keys).map { |round, value| value / theirs[round] }
    middle(ratios.reject(&:nan?))
  end

  # A second without work.
  # @param field [Symbol] redis_cpu, worker_cpu (seconds), commands
  # @return [Float, nil]
  def idle(name, field) = middle(@spells.fetch([name, IDLE], {}).values.map { |spell| spell[field] / spell.seconds })

  # Jobs a second that the second queue had done.
  def backlog_rate(name) = middle(@spells.fetch([name, :backlog], {}).values.map { |spell| spell.backlog / spell.seconds })

  # @return [Hash{Integer=>Float}] by round
  def rounds(name, rate, field)
    return {} unless measured?(name, rate)

    @spells[[name, rate]].transform_values { |spell| value(name, spell, field) }
  end

  private

  def spell(contestant, rate, backlog = 0) = Spell.new(contestant, @redis, rate, Settings::SECONDS, backlog: backlog).measure

  def backlog(contestant)
    (BACKLOGS.fetch(contestant.name, BACKLOG) * (Spell::LEAD + Spell::WARM + Settings::SECONDS + Spell::DRAIN)).to_i
  end

  def keep(contestant, rate, round)
    @missing.attempt("#{contestant.title}, #{rate.is_a?(Symbol) ? rate : "#{rate}/s"}, round #{round + 1}") do
      figures = yield
      @spells[[contestant.name, rate]][round] = figures
      puts "round #{round + 1}  #{rate.to_s.rjust(7)}  #{contestant.name.ljust(8)} #{brief(figures)}"
    end
  end

  def brief(figures)
    costs = format("%6d jobs, Redis %6.1f ms, worker %7.1f ms, %7d commands", figures.jobs, figures.redis_cpu * 1e3, figures.worker_cpu * 1e3,
                   figures.commands)
    figures.lates.empty? ? costs : format("%s, p50 %.2f p99 %.2f ms", costs, figures.late(0.5), figures.late(0.99))
  end

  def value(name, spell, field)
    case field
    when :rate then spell.jobs / spell.seconds
    when *SHARES.keys then spell.late(SHARES.fetch(field))
    else spell.jobs.zero? ? Float::INFINITY : (spell[field] - (idle(name, field) * spell.seconds)) / spell.jobs * (field == :commands ? 1 : 1e6)
    end
  end

  def middle(numbers) = numbers.sort[numbers.size / 2]
end
