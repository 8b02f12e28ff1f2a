# frozen_string_literal: true

require "socket"
require_relative "../../spec/support/redis_server"

# Looks each millisecond, by one write to Redis, which shards of a queue have a batch open while its ids move, and tells how long each id was in one.
class Standstills
  INTERVAL = 0.001 # seconds

  # @param sources [Integer] the shards that ids leave
  def initialize(redis, queue, sources)
    @redis = redis
    @keys = Array.new(sources) { |shard| "seriatim:{#{queue}/#{shard}}:leaving" }
    @look = @keys.map { |key| RedisProtocol.command("HGET", key, "") + RedisProtocol.command("HLEN", key) }.join
    @open = {} # key => [sequence of the batch, when it was not yet there, ids]
    @ended = [] # [seconds, ids]
    @thread = Thread.new { watch }
  end

  def stop
    @ending = true
    @thread.value
  end

  # @return [Array<Float>] of all ids that were seen in a batch: p50, p99 and the most
  def milliseconds
    sorted = @ended.sort
    ids = sorted.sum(&:last)
    raise "no batch was seen" if ids.zero?

    [0.5, 0.99, 1.0].map { |share| 1000 * at(sorted, ids * share) }
  end

  private

  # How long stood this one of the ids, in the order of their times?
  def at(sorted, place)
    sorted.find { |_, ids| (place -= ids) <= 0 }&.first || sorted.last.first
  end

  def watch
    UNIXSocket.open(@redis.socket) do |io|
      last = now
      until @ending
        io.write(@look)
        answers = @keys.map { |key| [key, RedisProtocol.read(io), RedisProtocol.read(io).to_i - 1] }
        time = now
        answers.each { |key, sequence, size| look(key, sequence, size, last, time) }
        last = time
        sleep INTERVAL
      end
    end
  end

  def look(key, sequence, size, last, time)
    known, since, ids = @open[key]
    if known == sequence
      @open[key][2] = [ids, size].max if known
      return
    end
    @ended << [time - since, ids] if known
    sequence ? @open[key] = [sequence, last, size] : @open.delete(key)
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
