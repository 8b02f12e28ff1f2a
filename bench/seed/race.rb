# frozen_string_literal: true

# Each system in turn, three rounds; what counts is the median. How many jobs a system gets is found out first, so that
# each measurement takes some seconds, whoever is fast.
class Race
  ROUNDS = 3
  SECONDS = 4.0
  START = { process: 3_000, single: 1_000, bulk: 5_000 }.freeze
  MOST = 1_000_000

  attr_reader :counts, :rates

  def initialize(contestants)
    @contestants = contestants
    @counts = {}
    @rates = Hash.new { |rates, key| rates[key] = [] }
  end

  def run
    each_discipline { |contestant, what| @counts[[contestant.name, what]] = calibrate(contestant, what) }
    ROUNDS.times do |round|
      each_discipline { |contestant, what| measure(contestant, what, round + 1) }
    end
  end

  def median(name, what) = middle(@rates.fetch([name, what]))

  # How many times as fast as the other, by rounds: what slowed the machine down in one slowed down both.
  def ratio(name, other, what)
    middle(@rates.fetch([name, what]).zip(@rates.fetch([other, what])).map { |ours, theirs| ours / theirs })
  end

  private

  def middle(numbers) = numbers.sort[numbers.size / 2]

  def each_discipline
    START.each_key { |what| @contestants.each { |contestant| yield contestant, what } }
  end

  def calibrate(contestant, what)
    count = START.fetch(what)
    while (seconds = contestant.public_send(what, count)) < 1
      count = (count * [2 / seconds, 10].min).to_i
    end
    (count / seconds * SECONDS).clamp(1_000, MOST).round(-3)
  end

  def measure(contestant, what, round)
    count = @counts.fetch([contestant.name, what])
    seconds = contestant.public_send(what, count)
    @rates[[contestant.name, what]] << (count / seconds)
    puts format("round %d  %-8s %-9s %8d jobs in %5.2f s: %8d/s", round, what, contestant.name, count, seconds, count / seconds)
  end
end
