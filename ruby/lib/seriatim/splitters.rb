# frozen_string_literal: true

module Seriatim
  # A shard of a worker's queue, as splitters see it.
  Shard = Struct.new(:worker, :index)

  # Who runs which shards: callables that get the list of all shards (workers in list order, shard 0 to n-1) and
  # return groups of them, or nil for no fixed groups.
  module Splitters
    # Every nodes-th shard, dealt to the threads, one after another; empty hands are left out.
    # @api private
    def self.deal(shards, nodes, node, threads)
      hands = Native.split(shards.size, nodes, node, threads || Seriatim.threads_per_node)
      hands.map { |places| places.map { |place| shards[place] } }
    end

    # The living nodes share all shards evenly, anew whenever one joins, leaves or dies.
    class Balanced
      def call(_shards) = nil
    end

    # All shards for this node, dealt to its threads.
    class Default
      # @param threads [Integer, nil] threads_per_node
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
        @nodes = Check.integer("number_of_nodes", number_of_nodes, 1..100_000)
        @node = Check.integer("node_number", node_number, 0..(@nodes - 1))
        @threads = threads
      end

      def call(shards) = Splitters.deal(shards, @nodes, @node, @threads)
    end

    # The module's own constructors.
    module Builders
      # @return [#call] the living nodes share all shards (default)
      def build_balanced_splitter = Balanced.new

      # @return [#call] all shards on this node, dealt to threads_per_node threads
      def build_default_splitter = Default.new

      # @param number_of_nodes [Integer] how many nodes there are
      # @param node_number [Integer] which of them this is, from 0
      # @return [#call] a fixed part of the shards, dealt to threads_per_node threads
      def build_by_node_splitter(number_of_nodes, node_number) = ByNode.new(number_of_nodes, node_number)
    end
  end
end
