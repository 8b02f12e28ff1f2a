# frozen_string_literal: true

# What the structures of Redis alone cost beside many waiting ids: the commands that move an id through `jobs` and `ready` when it is
# pushed, claimed and settled in bulk, without any rule of ours: no state, no record that is looked at, no owner.
class Floor
  SHARDS = 5
  CALL = 1000 # ids
  SLICE = 2000 # ids of a shard in a call, when a backlog is filled
  RECORD = "x" * 11 # as long as that of a blank job
  PUSH = <<~LUA
    local ids = {}
    for id = ARGV[1], ARGV[2] do
      ids[#ids + 1] = string.format('%.0f', id)
      redis.call('HSETNX', KEYS[1], ids[#ids], ARGV[3])
    end
    redis.call('RPUSH', KEYS[2], unpack(ids))
  LUA
  # The ids of the call before are settled, others are claimed.
  TAKE = <<~LUA
    local taken = redis.call('GET', KEYS[3])
    if taken then redis.call('HDEL', KEYS[1], unpack(cmsgpack.unpack(taken))) end
    redis.call('DEL', KEYS[3])
    local ids = redis.call('LRANGE', KEYS[2], 0, ARGV[1] - 1)
    if not ids[1] then return 0 end
    local records = redis.call('HMGET', KEYS[1], unpack(ids))
    redis.call('LTRIM', KEYS[2], #ids, -1)
    local packed = cmsgpack.pack(ids)
    redis.call('SET', KEYS[3], packed)
    return {packed, cmsgpack.pack(records)}
  LUA

  def initialize(redis)
    @redis = redis
    @push, @take = [PUSH, TAKE].map { |script| redis.call("SCRIPT", "LOAD", script) }
  end

  # Redis CPU, us an id, of taking all that wait until none is left.
  def process(waiting)
    fill(waiting)
    cost(waiting) { nil while shards.count { |shard| take(shard) }.positive? }
  end

  # Redis CPU, us an id, of pushing and taking `ids` of them, while always as many wait.
  def both(waiting, ids)
    fill(waiting)
    next_id = waiting
    cost(ids) do
      (ids / CALL).times do |turn|
        push(turn % SHARDS, next_id, next_id += CALL)
        take(turn % SHARDS)
      end
    end
  end

  private

  def cost(ids)
    before = @redis.cpu_seconds
    yield
    (@redis.cpu_seconds - before) * 1e6 / ids
  end

  def fill(waiting)
    @redis.flush
    0.step(by: SLICE, to: waiting - 1).each_with_index { |from, turn| push(turn % SHARDS, from, [from + SLICE, waiting].min) }
  end

  def shards = (0...SHARDS)
  def keys(shard) = %w[jobs ready taken].map { |name| "floor:{#{shard}}:#{name}" }
  def push(shard, from, to) = @redis.call("EVALSHA", @push, 2, *keys(shard).first(2), from, to - 1, RECORD)
  def take(shard) = @redis.call("EVALSHA", @take, 3, *keys(shard), CALL).is_a?(Array)
end
