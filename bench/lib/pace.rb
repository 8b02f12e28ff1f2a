# frozen_string_literal: true

# A schedule by which pushers push, in processes that share its numbers; a clock of the machine says when.
class Pace
  PER_PUSHER = 2000.0 # jobs a second, at most

  attr_reader :rate, :start, :seconds

  # @param start [Float] by the contestant's clock
  def initialize(rate, start, seconds)
    @rate = rate
    @start = start
    @seconds = seconds
  end

  def jobs = (rate * seconds).round

  # @return [Array<Hash{String=>String}>] the environment of each pusher: what bench/apps/count.rb reads
  def pushers
    of = (rate / PER_PUSHER).ceil
    Array.new(of) { |turn| { "BENCH_PACE" => [rate, start, seconds, turn, of].join(" ") } }
  end
end
