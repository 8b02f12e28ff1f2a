# frozen_string_literal: true

require "zlib"

# Writes the keys of Lowkiq 1.2, as its producers, its servers and their deaths leave them.
class LowkiqWriter
  # @param redis [RedisServer]
  # @param below [String] what a Redis::Namespace puts in front of all keys
  def initialize(redis, name, shards: 5, below: "")
    @redis = redis
    @prefix = "#{below}lowkiq:A:v1:#{name}"
    @shards = shards
  end

  def key(*parts) = [@prefix, *parts].join(":")
  def shard(id) = Zlib.crc32(id.to_s) % @shards
  def call(*words) = @redis.call(*words)

  # Runs all commands at once, as the transactions of Lowkiq do: an import that runs meanwhile sees all of them or none.
  ALL = "local i = 1 while i <= #ARGV do redis.call(unpack(ARGV, i + 1, i + ARGV[i])) i = i + 1 + ARGV[i] end"

  def transact(commands) = call("EVAL", ALL, 0, *commands.flat_map { |words| [words.size, *words] })

  # A push, or the return of a failed job.
  # @param payloads [Hash] payload => score
  def wait(id, payloads, time: Time.now.to_f, retries: -1, error: nil)
    index = [["ZADD", key("all_ids_lex"), 0, id],
             ["ZADD", key("all_ids_scored_by_perfrom_in"), "NX", time, id],
             ["ZADD", key("all_ids_scored_by_retry_count"), "NX", retries, id],
             ["ZADD", key("ids_scored_by_perform_in", shard(id)), "NX", time, id]]
    index << ["HSET", key("errors"), id, error] if error
    transact(index + payloads.map { |payload, score| ["ZADD", key("payloads", id), "NX", score, Marshal.dump(payload)] })
  end

  # A job of a server that died.
  def process(id, payloads, time: Time.now.to_f, retries: -1, error: nil)
    call("HSET", key("processing_length_by_shard"), shard(id), 1)
    call("HSET", key("processing:ids_with_perform_in", shard(id)), id, time)
    call("HSET", key("processing:ids_with_retry_count", shard(id)), id, retries)
    call("HSET", key("processing:errors", shard(id)), id, error) if error
    strand("processing:payloads", id, payloads)
  end

  def bury(id, payloads, time: Time.now.to_f, error: nil)
    call("ZADD", key("morgue:all_ids_lex"), 0, id)
    call("ZADD", key("morgue:all_ids_scored_by_updated_at"), time, id)
    call("HSET", key("morgue:errors"), id, error) if error
    strand("morgue:payloads", id, payloads)
  end

  # Payloads that no index names.
  def strand(part, id, payloads) = payloads.each { |payload, score| call("ZADD", key(part, id), score, Marshal.dump(payload)) }

  # The keys of Lowkiq that are left.
  def keys = call("KEYS", "#{@prefix}:*").reject { |name| name.start_with?(key("seriatim")) }
end
