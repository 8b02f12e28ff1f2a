# frozen_string_literal: true

# What our server costs while nothing happens, and how soon it is there when something does.
class Idle
  PUSHES = 500
  SECONDS = 10
  SETTLE = 3 # seconds until leases and subscriptions are there

  def initialize(contestant, redis)
    @contestant = contestant
    @redis = redis
  end

  # @return [Array(Float, Float)] p50 and p99 from just before the push to perform, in milliseconds
  def latency
    @redis.flush
    jobs = { "BENCH_JOBS" => PUSHES.to_s }
    @contestant.serve("latency", jobs) do
      sleep SETTLE
      Process.wait(@contestant.run("latency", jobs))
      sorted = @contestant.result.split.map { |seconds| seconds.to_f * 1000 }.sort
      [sorted[PUSHES / 2], sorted[PUSHES * 99 / 100]]
    end
  end

  # @return [Array(Float, Float)] commands a second and per cent of a CPU
  def cost(queues)
    @redis.flush
    @contestant.serve("idle", "BENCH_QUEUES" => queues.to_s) do |pid|
      sleep SETTLE
      before = cpu_seconds(pid)
      commands = @redis.commands_in(SECONDS)
      [commands / SECONDS.to_f, (cpu_seconds(pid) - before) / SECONDS * 100]
    end
  end

  private

  def cpu_seconds(pid)
    Dir["/proc/#{pid}/task/*/schedstat"].sum { |path| File.read(path).to_i } / 1e9
  end
end
