# frozen_string_literal: true

# One socket for the commands with which a test looks at a Redis Cluster: a program that reads and empties one Redis can then do
# the same to a cluster.

require_relative "redis_cluster"

# Listens on the socket `s` of a folder. KEYS, FLUSHALL, CONFIG, SCRIPT and a script without keys go to all masters: their lists
# are one list, their integers one sum. SCAN gives all keys at once. Other commands go to the master of their first key.
class ClusterGate
  TO_ALL = %w[KEYS FLUSHALL CONFIG SCRIPT EVAL].freeze

  # @param cluster [RedisCluster]
  # @param folder [String] the caller removes it
  def initialize(cluster, folder)
    @cluster = cluster
    @server = UNIXServer.new(File.join(folder, "s"))
    @thread = Thread.new { loop { Thread.new(@server.accept) { |io| serve(io) } } }
  end

  def close
    @thread.kill
    @server.close
  end

  private

  def serve(io)
    while (words = request(io))
      io.write(answer(words))
    end
  rescue SystemCallError, IOError
    nil # the client has gone
  ensure
    io.close
  end

  # A request is an array of texts, as RedisProtocol.read reads one.
  def request(io) = io.eof? ? nil : RedisProtocol.read(io)

  def answer(words)
    return "*2\r\n$1\r\n0\r\n#{answer(%w[KEYS *])}" if words.first.upcase == "SCAN"

    replies = nodes(words).map { |node| reply(node, words) }
    replies.find { |bytes| bytes.start_with?("-") } || united(replies)
  end

  def nodes(words)
    return @cluster.masters if TO_ALL.include?(words.first.upcase)
    return @cluster.masters.first(1) if words.size == 1

    [@cluster.master_of(@cluster.slot_of(words[1]))]
  end

  # The bytes of a node's reply, so that integers stay integers.
  def reply(node, words)
    UNIXSocket.open(node.server.socket) do |io|
      io.write("*#{words.size}\r\n", *words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" })
      bytes_of_reply(io)
    end
  end

  def bytes_of_reply(io)
    line = io.gets("\r\n").b
    case line[0]
    when "$" then line.start_with?("$-1") ? line : line + io.read(line[1..].to_i + 2)
    when "*" then line + Array.new([line[1..].to_i, 0].max) { bytes_of_reply(io) }.join
    else line
    end
  end

  def united(replies)
    case replies.first[0]
    when ":" then ":#{replies.sum { |bytes| bytes[1..].to_i }}\r\n"
    when "*" then united_lists(replies)
    else replies.first
    end
  end

  def united_lists(replies)
    heads, rests = replies.map { |bytes| bytes.split("\r\n", 2) }.transpose
    "*#{heads.sum { |head| head[1..].to_i }}\r\n#{rests.join}"
  end
end
