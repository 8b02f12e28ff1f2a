# frozen_string_literal: true

# Starts a Redis Cluster for every Ruby program that tests or measures, and does to it what its operators and accidents do.

require_relative "redis_server"

# Masters and their replicas on ports of loopback, each in a temporary folder. The processes are stopped by their pids.
class RedisCluster
  SLOTS = 16_384
  # How long a node must be silent until others call it dead. With the patient one a machine that stalls for some seconds makes no failover
  # that no example has asked for; the short one holds from a failover until the cluster is whole again.
  NODE_TIMEOUT_MS = 2000
  PATIENT_MS = 60_000
  MIGRATED_AT_ONCE = 100 # keys

  # One redis-server of the cluster. Its socket, besides its port, is for commands of the test.
  class Node
    attr_reader :port, :bus_port, :id, :server

    # @param arguments [Array<String>] further options of redis-server
    def initialize(arguments, tls: nil, port: RedisServer.free_port, bus_port: RedisServer.free_port)
      @port = port
      @bus_port = bus_port
      @server = start(arguments, tls)
      @id = call("CLUSTER", "MYID")
      @running = true
      @frozen = false
    end

    def address = "127.0.0.1:#{port}"
    def call(*words) = server.call(*words)

    # Does it run, and is it not frozen?
    def answers? = @running && !@frozen
    def master? = call("ROLE").first == "master"

    # @return [Array<Integer>] the slots that it serves, in its own eyes
    def slots = said_of(self).drop(8).grep_v(/\[/).flat_map { |range| Range.new(*range.split("-").minmax_by(&:to_i).map(&:to_i)).to_a }

    # @return [Array<String>] what it says of a node, or of itself: id, address, flags, master, ..., slots; empty: it does not know it
    def said_of(node) = call("CLUSTER", "NODES").lines.map(&:split).find { |words| words.first == node.id } || []

    # Does it call itself and the whole cluster well, as a master or as a replica that follows one?
    def well? = call("CLUSTER", "INFO").include?("cluster_state:ok") && (master? || call("INFO", "replication").include?("master_link_status:up"))

    # @return [Integer] how much a replica has heard of its master
    def heard = Integer(call("INFO", "replication")[/^slave_repl_offset:(\d+)/, 1] || raise("#{address} is no replica any more"))

    # @return [Array<String, nil>] these keys' values, also of a replica
    def values(keys)
      UNIXSocket.open(server.socket) do |io|
        RedisProtocol.call(io, "READONLY")
        keys.map { |key| RedisProtocol.call(io, "GET", key) }
      end
    end

    # Ends it by a signal, so it can be started again with what it wrote.
    def kill(signal = :KILL)
      @running = false
      Process.kill(:CONT, server.pid) if @frozen
      server.stop(signal)
      @frozen = false
    end

    def restart
      server.start
      @running = true
    end

    def freeze_process
      @frozen = true
      Process.kill(:STOP, server.pid)
    end

    def thaw
      Process.kill(:CONT, server.pid)
      @frozen = false
    end

    def remove
      kill if @running
      server.remove
    end

    private

    # Another process may take a port that was free: then there are others.
    def start(arguments, tls)
      RedisServer.new(*(tls ? secured(tls) : ["--port", port.to_s]), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", bus_port.to_s,
                      "--cluster-node-timeout", NODE_TIMEOUT_MS.to_s, "--cluster-allow-replica-migration", "no",
                      "--repl-diskless-sync-delay", "0", *arguments)
    rescue RuntimeError => e
      raise unless e.message.include?("Address already in use")

      @port, @bus_port = Array.new(2) { RedisServer.free_port }
      retry
    end

    def secured(folder)
      ["--port", "0", "--tls-port", port.to_s, "--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "no",
       "--tls-cert-file", "#{folder}/server.crt", "--tls-key-file", "#{folder}/server.key", "--tls-ca-cert-file", "#{folder}/ca.crt"]
    end
  end

  attr_reader :nodes

  # @param masters [Integer] among which the slots are divided evenly
  # @param replicas [Integer] of each master
  # @param arguments [Array<String>] further options of each redis-server
  # @param tls [String, nil] the folder of server.crt, server.key and ca.crt: everything goes over TLS then
  def initialize(masters: 3, replicas: 1, arguments: [], tls: nil)
    @arguments = arguments
    @tls = tls
    @nodes = start_nodes(masters * (1 + replicas))
    join(@nodes.first(masters), @nodes.drop(masters))
  rescue StandardError
    remove
    raise
  end

  # @param seeds [Array<Node>] whose addresses stand in it
  def url(seeds = nodes) = "#{@tls ? "rediss" : "redis"}+cluster://#{seeds.map(&:address).join(",")}"

  # Ends all processes and removes their folders.
  def remove = Array(@nodes).each(&:remove)

  # ---- who serves what

  # @return [Array<Node>] those that answer and serve slots
  def masters = answering.select { |node| node.master? && node.slots.any? }

  # @return [Node] a replica of the node that answers
  def replica_of(node)
    answering.find { |other| other.said_of(other)[3] == node.id } or raise "#{node.address} has no replica that answers"
  end

  def slot_of(key) = answering.first.call("CLUSTER", "KEYSLOT", key).to_i

  # @param slot [Integer]
  # @return [Node] the master that serves it
  def master_of(slot)
    range = answering.first.call("CLUSTER", "SLOTS").find { |from, to,| slot.between?(from.to_i, to.to_i) } or raise "nobody serves slot #{slot}"
    by_id(range[2][2])
  end

  # @return [Array<String>] all keys of all masters
  def keys = masters.flat_map { |node| node.call("KEYS", "*") }

  def flush = masters.each { |node| node.call("FLUSHALL") }

  # ---- slots that move

  # Moves a slot with its keys, as redis-cli does.
  def move_slot(slot, target)
    source = begin_move(slot, target) or return
    nil while migrate_some(slot, source, target, MIGRATED_AT_ONCE)
    end_move(slot, source, target)
  end

  # Begins to move a slot and takes some of its keys; the slot stays half moved until end_move, or abandon_move.
  # @return [Node] the master that still serves it
  def half_move(slot, target, keys: 1)
    source = begin_move(slot, target) or raise "#{target.address} serves slot #{slot} already"
    migrate_some(slot, source, target, keys)
    source
  end

  # @return [Node, nil] the source; nil: the target serves the slot already
  def begin_move(slot, target)
    source = master_of(slot)
    return if source == target

    await("#{target.address} does not know the epochs of all others") { knows_epochs?(target) }
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    source
  end

  # @return [Boolean] whether there were keys to take
  def migrate_some(slot, source, target, count)
    keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, count)
    return false if keys.empty?

    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 10_000, "KEYS", *keys)
    true
  end

  # Takes what keys are left, and tells all masters whose slot it is now.
  def end_move(slot, source, target)
    nil while migrate_some(slot, source, target, MIGRATED_AT_ONCE)
    give([slot], source, target, masters)
  end

  # ---- masters that come and go

  # Lets a replica take over by command, with all that its master has. On a busy machine the replica may give up after 5 s, or refuse while
  # it has no connection to its master: then it is told again.
  # @return [Node] the new master
  def failover(master)
    replica = replica_of(master)
    told = 0
    limit_silence(NODE_TIMEOUT_MS)
    await("#{replica.address} was not promoted") do
      tell_to_take_over(replica) if !replica.master? && now - told > 6 && (told = now)
      promoted?(replica)
    end
    replica
  end

  # Kills or freezes a master.
  # @param how [Symbol] :kill or :freeze_process
  # @yieldparam replica [Node] when the master is gone, before the replica can take over
  # @return [Node] the new master, when all nodes know it
  def replace(master, how)
    replica = replica_of(master)
    limit_silence(NODE_TIMEOUT_MS, [master]) # it serves nobody when it is thawed
    master.public_send(how)
    yield replica if block_given?
    limit_silence(NODE_TIMEOUT_MS)
    await_promotion(replica)
  end

  # Waits until the replica has all that its master sent before the master was killed or frozen.
  def await_silence(replica)
    heard = nil
    await("#{replica.address} still hears of its master") do
      sleep 0.1
      before = heard
      before == (heard = replica.heard)
    end
  end

  # Waits until each master's replica has all that was written before. Slots that were moved are safe then, which MIGRATE does not wait for.
  def await_replicas
    masters.each do |node|
      await("#{node.address} has no replica") do
        UNIXSocket.open(node.server.socket) do |io|
          RedisProtocol.call(io, "PING") # WAIT is about what was written before the connection's last command
          RedisProtocol.call(io, "WAIT", 1, 1000) != "0"
        end
      end
    end
  end

  # Waits until all nodes that answer say that the cluster is whole, and each replica follows its master.
  def await_whole
    await("the cluster is not whole") { answering.all? { |node| node.well? && agreed?(node) } }
    limit_silence(PATIENT_MS)
    forbid_failovers("no")
  end

  # @return [Node] a master without slots; see rebalance
  def add_master
    node = Node.new(@arguments, tls: @tls)
    nodes << node
    forbid_failovers("yes") # a master may stall
    limit_silence(NODE_TIMEOUT_MS) # nodes that are patient tell each other less often who has what
    meet(node, nodes - [node])
    await_acquaintance
    await_whole
    node
  end

  # Moves slots until all masters, and this one, have as many.
  # @param node [Node] of add_master
  # @param first [Array<Integer>] slots to move before others
  def rebalance(node, first: [])
    others = masters
    forbid_failovers("yes")
    limit_silence(NODE_TIMEOUT_MS)
    others.each do |source|
      all = (first & source.slots) | source.slots
      taken = all.first(all.size - (SLOTS / (others.size + 1)))
      empty, filled = taken.partition { |slot| source.call("CLUSTER", "COUNTKEYSINSLOT", slot) == "0" }
      filled.each { |slot| move_slot(slot, node) }
      give(empty, source, node, others)
    end
    limit_silence(PATIENT_MS)
    forbid_failovers("no")
  end

  # Waits until the block is true.
  def await(what, seconds = 60)
    deadline = now + seconds
    until yield
      raise "#{what} after #{seconds} s" if now > deadline

      sleep 0.02
    end
  end

  private

  def answering = nodes.select(&:answers?)

  def configure(option, value, nodes = answering) = nodes.each { |node| node.call("CONFIG", "SET", option, value) }

  def limit_silence(milliseconds, nodes = answering) = configure("cluster-node-timeout", milliseconds, nodes)

  # @param word [String] "yes": no replica takes over unless it is told to
  def forbid_failovers(word) = configure("cluster-replica-no-failover", word)

  def tell_to_take_over(replica)
    replica.call("CLUSTER", "FAILOVER")
  rescue RuntimeError
    nil # it is told again
  end

  def by_id(id) = nodes.find { |node| node.id == id }

  # Tells all masters, the new one first, whose slots they are now, and returns when all nodes know. Its epoch must be the greatest, or the
  # source would take them back.
  def give(slots, source, target, masters)
    await("#{target.address} does not know the epochs of all others") { knows_epochs?(target) }
    target.call("CLUSTER", "BUMPEPOCH")
    [target, source, *(masters - [target, source])].each do |node|
      UNIXSocket.open(node.server.socket) { |io| slots.each { |slot| RedisProtocol.call(io, "CLUSTER", "SETSLOT", slot, "NODE", target.id) } }
    end
    await("not all know the slots of #{target.address}") { agreed?(target) } # replicas hear of them from their masters
  end

  def start_nodes(count)
    ports = []
    ports |= [RedisServer.free_port] until ports.size == 2 * count
    ports.each_slice(2).map { |port, bus_port| Thread.new { Node.new(@arguments, tls: @tls, port:, bus_port:) } }.map(&:value)
  end

  def join(masters, replicas)
    forbid_failovers("yes")
    nodes.each.with_index(1) { |node, epoch| node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch) }
    masters.each_with_index do |node, at|
      node.call("CLUSTER", "ADDSLOTSRANGE", SLOTS * at / masters.size, SLOTS * (at + 1) / masters.size - 1)
    end
    nodes.each_with_index { |node, at| meet(node, nodes.drop(at + 1)) }
    await_acquaintance
    replicas.each_with_index { |node, at| node.call("CLUSTER", "REPLICATE", masters[at % masters.size].id) }
    await("the replicas do not follow") { replicas.all? { |node| follows?(node) } }
    await_whole
  end

  def meet(node, others)
    others.select(&:answers?).each { |other| node.call("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus_port) }
  end

  # A node gives a handshake up after the node timeout: then they meet once more.
  def await_acquaintance
    met = now
    await("the nodes do not know each other") do
      nodes.each { |node| meet(node, nodes - [node]) } if now - met > 5 && (met = now)
      knows_all?
    end
  end

  def knows_all? = answering.product(answering).all? { |node, other| node.said_of(other).any? }

  # If it does not, it may take a slot with an epoch that is older than its owner's, and then lose it to the next message of that owner,
  # who has given it away: nobody serves it then.
  def knows_epochs?(node) = answering.all? { |other| other.said_of(other)[6] == node.said_of(other)[6] }

  # Do all say the same of its slots, and nobody that it is dead?
  def agreed?(node)
    said = answering.map { |other| other.said_of(node) }
    said.all? { |words| words.any? && !words[2].include?(",fail") } && said.map { |words| words.drop(8).grep_v(/\[/) }.uniq.one?
  end

  # Do all others know that it is a replica?
  def follows?(node) = answering.all? { |other| other.said_of(node)[2].to_s.include?("slave") }

  def promoted?(replica) = replica.slots.any? && replica.well? && agreed?(replica)

  def await_promotion(replica)
    await("#{replica.address} was not promoted") { promoted?(replica) }
    replica
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
