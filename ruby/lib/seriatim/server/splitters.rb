# frozen_string_literal: true

module Seriatim
  # A shard of a worker's queue, as splitters see it.
  Shard = Struct.new(:worker, :index)

  # Splitters decide which shards a server runs: callables that get the list of all shards (workers in list order, shard 0 to
  # n-1) and return groups of them, or nil for no fixed groups.
  module Splitters
    # The rules of what build_splitter gives, and of what that gives.
    SPLITTER = "give a callable (list of shards -> list of groups of shards, or nil)"
    GROUPS = "give a list of groups, each a list of shards out of those it was given, or nil"
    private_constant :SPLITTER, :GROUPS

    class << self
      # Every nodes-th shard, dealt to the threads, one after another; empty hands are left out.
      # @api private
      def deal(shards, nodes, node, threads)
        hands = Native.split(shards.size, nodes, node, threads || Thread.current[:seriatim_threads] || Seriatim.threads_per_node)
        hands.map { |places| places.map { |place| shards[place] } }
      end

      # @api private
      # @return [#call] what build_splitter gives
      # @raise [UsageError] it cannot be called
      def build
        splitter = Seriatim.build_splitter.call
        splitter.respond_to?(:call) ? splitter : Validate.misuse("build_splitter", SPLITTER, splitter)
      end

      # What the splitter gives this node, without empty groups; nil: the nodes share the shards. Ours deal them to as many
      # threads as the server has, also when a splitter of the application's own calls them.
      # @api private
      # @return [Array<Array<Shard>>, nil]
      # @raise [UsageError] it is anything but groups of different shards, or no shard at all
      def groups(splitter, shards, threads)
        Thread.current[:seriatim_threads] = threads
        groups = splitter.call(shards.dup) # which it may sort or shorten
        groups.nil? ? nil : filled(groups, shards)
      ensure
        Thread.current[:seriatim_threads] = nil
      end

      private

      def filled(groups, shards)
        raise_unless_list(groups, groups)
        filled = groups.map { |group| raise_unless_list(group, groups).to_a }.reject(&:empty?)
        raise UsageError, "build_splitter: the splitter gives this node no shard" if filled.empty?

        refuse_strangers(filled.flatten(1), shards)
        filled
      end

      def raise_unless_list(value, groups)
        value.is_a?(Enumerable) && !value.is_a?(Shard) ? value : Validate.misuse("build_splitter: the splitter", GROUPS, groups)
      end

      def refuse_strangers(given, shards)
        known = shards.to_h { |shard| [shard, true] }
        stranger = given.index { |shard| !shard.is_a?(Shard) || !known[shard] }
        Validate.misuse("build_splitter: the splitter", GROUPS, given[stranger]) if stranger

        twice, = given.tally.find { |_, count| count > 1 }
        return unless twice

        raise UsageError, "build_splitter: the splitter gives shard #{twice.index} of queue #{twice.worker.queue_name.inspect} twice"
      end
    end

    # The living nodes share all shards evenly, anew whenever one joins, leaves or dies.
    class Balanced
      def call(_shards) = nil
    end

    # All shards for this node, dealt to its threads.
    class Default
      # @param threads [Integer, nil] those of the server that asks, else threads_per_node
      def initialize(threads = nil)
        @threads = threads
      end

      def call(shards) = Splitters.deal(shards, 1, 0, @threads)
    end

    # Every number_of_nodes-th shard for this node, dealt to its threads.
    class ByNode
      # @param number_of_nodes [Integer]
      # @param node_number [Integer] from 0
      def initialize(number_of_nodes, node_number, threads = nil)
        @nodes = Validate.integer("number_of_nodes", number_of_nodes, 1..100_000)
        @node = Validate.integer("node_number", node_number, 0..(@nodes - 1))
        @threads = threads
      end

      def call(shards) = Splitters.deal(shards, @nodes, @node, @threads)
    end

    # The module's own constructors.
    module Builders
      # @return [#call] the living nodes share all shards (default)
      def build_balanced_splitter = Balanced.new

      # @return [#call] all shards on this node, dealt to the server's threads
      def build_default_splitter = Default.new

      # @param number_of_nodes [Integer] how many nodes there are
      # @param node_number [Integer] which of them this is, from 0
      # @return [#call] a fixed part of the shards, dealt to the server's threads
      def build_by_node_splitter(number_of_nodes, node_number) = ByNode.new(number_of_nodes, node_number)
    end
  end
end
