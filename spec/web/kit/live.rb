# frozen_string_literal: true

require "json"
require_relative "app"
require_relative "../../support/redis_server"
require_relative "../../../ruby/spec/support/command"

# A Redis with a worker process at work on queues of these names; jobs are pushed from here.
class Live
  attr_reader :redis

  def initialize(names, env: {})
    @redis = RedisServer.new
    Seriatim.redis = @redis.url
    @queues = names.to_h { |name| [name, Application.worker(name)] }
    @others = []
    @worker = worker(names, env: env)
  end

  # One more worker process, at work on queues of these names alone.
  # @return [Command]
  def another(*names, arguments: []) = worker(names, arguments: arguments).tap { |made| @others << made }

  def close
    [@worker, *@others].each(&:remove)
    @redis.remove
  end

  # @return [Module] the worker of that name
  def [](name)
    use
    @queues.fetch(name)
  end

  # What this process pushes goes there from now on.
  def use = Seriatim.redis == @redis.url || Seriatim.redis = @redis.url

  # Makes each of these many ids; they stay what they are.
  def fill(name, waiting: 0, later: 0, retrying: 0, dead: 0, running: 0, parked: 0)
    queue = self[name]
    jobs = [*ids("failing", retrying) { |id| { id: id, payload: { fail: "#{id} met a broken pipe" } } },
            *ids("gone", dead) { |id| { id: id, payload: { fail: "no account #{id}" }, retry_count: 2 } },
            *ids("busy", running) { |id| { id: id, payload: { sleep: 900 } } }]
    queue.perform_async(jobs)
    until_true(-> { "#{name}: #{queue.metrics}" }) { queue.metrics.values_at(:retries, :morgue_length, :busy) == [retrying, dead, running] }
    queue.perform_async(ids("later", later + waiting + parked) { |id| { id: id, payload: { n: id }, delay: 3600 } })
    queue.actions.park(queue.queries.range_by_id("-", "+").map { |r| r[:id] }.grep(/later/).first(parked)) if parked.positive?
    queue
  end

  # All keys, byte for byte, but for those of clients: what a client pushed or popped last is kept for a minute, and then goes by itself. And
  # but for what requests for figures measure every ten seconds.
  def digest
    keys = @redis.call("KEYS", "*").reject { |key| key.b.end_with?(":history", ":sampler") }
    lasting = keys.sort.select { |key| (left = @redis.call("PTTL", key).to_i) == -1 || left > 60_000 }
    lasting.map { |key| [key, @redis.call("DUMP", key)] }.hash
  end

  def stop_worker = @worker.remove

  def until_true(what, seconds = 60)
    deadline = now + seconds
    until yield
      raise "not within #{seconds} s: #{what.respond_to?(:call) ? what.call : what}" if now > deadline

      sleep 0.02
    end
  end

  private

  def worker(names, arguments: [], env: {})
    path = File.join(@redis.folder, "queues-#{names.hash}")
    File.write(path, JSON.generate(names.map { |name| [name].pack("m0") }))
    Command.new("-r", File.join(__dir__, "app.rb"), *arguments, redis: @redis.url, env: { "QUEUES" => path, **env })
  end

  def ids(word, count) = Array.new(count) { |number| yield format("%s-%03d", word, number + 1) }
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
