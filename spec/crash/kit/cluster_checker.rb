# frozen_string_literal: true

require "zlib"
require_relative "failover_checker"

# Judges a journal of a Redis Cluster whose masters are replaced. Behind "failover 0 NOW" stands for each shard of the dead master what its
# replica had heard when it could hear no more: "heard QUEUE SHARD TICK". Only claims of these shards with fences behind TICK, up to
# NOW, are forgotten; nothing else is forgiven.
class ClusterChecker < FailoverChecker
  # @param shards [Integer] of each queue; several where it gets others: then an id is taken for one of each of its shards
  def initialize(lines, *shards)
    @shards = shards
    @unheard = Hash.new { |all, shard| all[shard] = [] } # [queue, shard] => ranges of fences
    super(lines)
  end

  def on_heard(line)
    @unheard[[line.queue, line.id.to_i]] << ((line.fence + 1)..@failed_over)
  end

  # Runs that another run overtook and that reported an end, by process and shard.
  # @return [Hash{Array => Integer}] [pid, shard] => how many
  def overtaken = @overtaken ||= Hash.new(0)

  def on_end(line)
    before = void.size
    super
    overtaken[[line.pid, shards_of(line).first]] += 1 if void.size > before
  end

  private

  def shards_of(line) = @shards.map { |count| Zlib.crc32(line.id) % count }.uniq
  def forgotten?(line, fence) = shards_of(line).any? { |shard| @unheard[[line.queue, shard]].any? { |fences| fences.cover?(fence) } }
end
