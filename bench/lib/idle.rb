# frozen_string_literal: true

require_relative "processes"

# How soon a server without work is there when something comes, and what it costs while nothing does.
class Idle
  PUSHES = 500
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
    jobs = { "BENCH_JOBS" => PUSHES.to_s }
    @contestant.serve(:note, jobs) do
      sleep SETTLE
      @contestant.finish(:time, jobs)
      sorted = @contestant.result.split.map { |seconds| seconds.to_f * 1000 }.sort
      SHARES.values.map { |share| sorted[(PUSHES * share).to_i] }
    end
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
