# frozen_string_literal: true

require_relative "cluster_gate"

# A Redis Cluster that a Kit, or a program for one Redis, takes in place of a RedisServer.
class ClusterSetup
  attr_reader :cluster, :folder

  # @param options of RedisCluster.new
  def initialize(*arguments, **options)
    @folder = Dir.mktmpdir("seriatim-cluster")
    @cluster = RedisCluster.new(arguments:, **options)
    @gate = ClusterGate.new(@cluster, folder)
  end

  def url = cluster.url
  # Takes the commands with which a test looks at it; see ClusterGate.
  def socket = File.join(folder, "s")
  def call(*words) = UNIXSocket.open(socket) { |io| RedisProtocol.call(io, *words) }
  def flush = cluster.flush

  def remove
    @gate&.close
    cluster&.remove
    FileUtils.rm_rf(folder)
  end
end
