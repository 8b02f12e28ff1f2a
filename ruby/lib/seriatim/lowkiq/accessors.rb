# frozen_string_literal: true

module Lowkiq
  # The settings and builders of the gem lowkiq. Those that Seriatim has are Seriatim's own.
  module Accessors
    DELEGATED = %i[threads_per_node client_pool_size pool_timeout server_middlewares client_middlewares build_scheduler build_splitter
                   format_error dump_error load_error workers].freeze
    private_constant :DELEGATED

    DELEGATED.each do |name|
      define_method(name) { Seriatim.public_send(name) }
      define_method(:"#{name}=") { |value| Seriatim.public_send(:"#{name}=", value) }
    end

    # Hooks, which always are callable here: an application may wrap the one that it finds.
    %i[on_server_init last_words].each do |name|
      define_method(name) { Seriatim.public_send(name) || proc {} }
      define_method(:"#{name}=") { |hook| Seriatim.public_send(:"#{name}=", hook) }
    end

    # The codec of the workers that extend Lowkiq::Worker and name none: Marshal, as in Lowkiq. Seriatim's other workers keep theirs.
    def dump_payload = @dump_payload || ::Marshal.method(:dump)
    def load_payload = @load_payload || ::Marshal.method(:load)

    def dump_payload=(dump)
      @dump_payload = callable("dump_payload", dump)
    end

    def load_payload=(load)
      @load_payload = callable("load_payload", load)
    end

    # @api private
    # @return [Symbol, Array<#call>] as the setting `codec` of a worker
    def codec = @dump_payload || @load_payload ? [dump_payload, load_payload] : :marshal

    def poll_interval = Seriatim.poll_interval

    # Has no effect. Applications set it, so it is no error.
    def poll_interval=(seconds)
      return if @interval_noted

      @interval_noted = true
      Seriatim::Log.info("lowkiq", "Lowkiq.poll_interval = #{seconds.inspect} has no effect: a push wakes the server at once, and " \
                                   "Seriatim.poll_interval is for wake-ups that are lost")
    end

    # A callable that gives a client of the gem redis, or a URL.
    def redis = @redis || -> { ::Redis.new(url: Seriatim.redis_url) }

    # Seriatim takes the URL of the client that the callable gives, and makes its connections itself. If the client is a Redis::Namespace,
    # Seriatim's keys lie below its namespace, too.
    def redis=(callable)
      @redis = callable("redis", callable)
      @below = nil
      @client_redis_pool = @server_redis_pool = nil
      Seriatim.redis = -> { RedisClient.url(callable.call) { |namespace| put_below(namespace) } }
    end

    # What a client that is a Redis::Namespace puts in front of all keys; known once the URL was taken.
    # @api private
    # @return [String, nil]
    attr_reader :below

    # For an application that talks to Redis through Lowkiq: connections of the gem redis, which Seriatim does not use.
    # @return [ConnectionPool]
    def client_redis_pool = @client_redis_pool ||= redis_pool(client_pool_size)

    # @return [ConnectionPool]
    def server_redis_pool = @server_redis_pool ||= redis_pool(threads_per_node)

    # @return [Array<Seriatim::Shard>] all shards of the workers, as a splitter gets them
    def shard_handlers = workers.flat_map { |worker| Array.new(worker.shards_count) { |index| Seriatim::Shard.new(worker, index) } }

    def build_lag_scheduler = Seriatim.build_lag_scheduler
    def build_seq_scheduler = Seriatim.build_seq_scheduler
    def build_default_splitter = Seriatim.build_default_splitter
    def build_by_node_splitter(number_of_nodes, node_number) = Seriatim.build_by_node_splitter(number_of_nodes, node_number)

    private

    def put_below(namespace)
      @below = "#{namespace}:"
      Seriatim.namespace = below + Seriatim.namespace unless Seriatim.namespace.start_with?(below)
    end

    def callable(field, value)
      value.respond_to?(:call) ? value : raise(Seriatim::Invalid, "Lowkiq.#{field} must be callable, not #{value.inspect} (#{value.class})")
    end

    def redis_pool(size)
      require "connection_pool"
      require "redis"
      ConnectionPool.new(size: size, timeout: pool_timeout, &redis)
    rescue LoadError => e
      raise Seriatim::Invalid, "the pools of Lowkiq need the gems redis and connection_pool in the Gemfile, because Seriatim needs neither: #{e.message}"
    end
  end
  private_constant :Accessors
end

module Seriatim
  # The names that splitters written for Lowkiq use.
  class Shard
    alias shard_index index

    def queue_name = worker.queue_name

    %i[process restore].each do |name|
      define_method(name) { raise Invalid, "Lowkiq's #{name} of a shard does not exist here: the server takes jobs (seriatim -r), and Seriatim.pop takes one id" }
    end
  end
end
