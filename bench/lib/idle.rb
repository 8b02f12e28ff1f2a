# frozen_string_literal: true

require_relative "pace"
require_relative "processes"

# How soon a server without work is there when something comes, and what it costs while nothing does.
class Idle
  PUSHES = 500
  RATE = 50 # a second
  LEAD = 2 # seconds until the pusher is loaded
  DRAIN = 2 # seconds in which the last job is performed
  SECONDS = 10
  SETTLE = 3 # seconds until leases and subscriptions are there
  SHARES = { "p50" => 0.5, "p99" => 0.99, "p99.9" => 0.999 }.freeze

  def initialize(contestant, redis)
    @contestant = contestant
    @redis = redis
  end

  # @return [Array<Float>] the SHARES of the times from just before the push to perform, in milliseconds
  def latency
    @redis.flush
    @contestant.serve(:note) do
      sleep SETTLE
      pusher, = Pace.new(RATE, @contestant.now + LEAD, PUSHES / RATE).pushers
      @contestant.finish(:pace, pusher)
      sleep DRAIN
    end
    sorted = @contestant.notes.map { |performed, pushed| (performed - pushed) * 1000 }.sort
    raise "#{sorted.size} of #{PUSHES} jobs were performed" if sorted.size < PUSHES

    SHARES.values.map { |share| sorted[(PUSHES * share).to_i] }
  end

  # @return [Array(Float, Float)] commands a second and per cent of a CPU
  def cost(queues)
    @redis.flush
    @contestant.serve(:idle, "BENCH_QUEUES" => queues.to_s) do |pid|
      sleep SETTLE
      before = Processes.cpu_seconds(pid)
      commands = @redis.commands_in(SECONDS)
      [commands / SECONDS.to_f, (Processes.cpu_seconds(pid) - before) / SECONDS * 100]
    end
  end
end
