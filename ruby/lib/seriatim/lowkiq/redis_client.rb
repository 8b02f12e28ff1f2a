# frozen_string_literal: true

module Lowkiq
  # Reads the URL out of a client of the gem redis (4 or 5), because Seriatim makes its connections itself.
  # @api private
  module RedisClient
    # What says where Redis is or who asks. Timeouts, drivers and the like are left alone: Seriatim has settings of its own for them.
    REFUSED = {
      sentinels: "name the Sentinels in a URL: Seriatim.redis = \"redis+sentinel://...\"",
      cluster: "it works with one Redis, or with Sentinel",
      ssl_params: "name the file of certificates by the variable SSL_CERT_FILE, and leave ssl_params out"
    }.freeze
    private_constant :REFUSED

    module_function

    # @param client [String, Object] a URL, or a client of the gem redis, which is closed
    # @yieldparam namespace [String] of a client that is a Redis::Namespace
    # @return [String]
    # @raise [Seriatim::Invalid] it has no URL that says all that it is
    def url(client, &namespaced)
      return client if client.is_a?(String)

      options = options(client) or
        raise Seriatim::Invalid, "Lowkiq.redis must give a URL or a client of the gem redis, not a #{client.class}; Seriatim takes nothing but its URL"
      refuse(options)
      build(options).tap { namespace(client)&.then(&namespaced) }
    ensure
      client.close if !client.is_a?(String) && client.respond_to?(:close)
    end

    # @return [Hash, nil] the options of the gem redis 4, or the same read from the configuration of 5
    def options(client)
      return unless client.respond_to?(:_client)

      inner = client._client
      return inner.options if inner.respond_to?(:options)

      inner.respond_to?(:config) ? of_config(inner.config) : { cluster: true }
    end

    # @return [String, nil]
    def namespace(client)
      return unless client.respond_to?(:namespace)

      name = client.namespace
      name = name.name if name.is_a?(Symbol)
      name.is_a?(String) ? name : raise(Seriatim::Invalid, "Lowkiq.redis: the namespace of the client must be a text, not a #{name.class}")
    end

    # A configuration with Sentinels would ask them for the host.
    def of_config(config)
      return { sentinels: true } if config.respond_to?(:sentinels)

      { scheme: config.ssl? ? "rediss" : "redis", path: config.path, host: config.host, port: config.port,
        db: config.db, username: config.username, password: config.password, ssl_params: config.ssl? ? config.ssl_params : nil }
    end

    def refuse(options)
      name, way = REFUSED.find { |key, _| given?(options[key]) }
      raise Seriatim::Invalid, "Lowkiq.redis: Seriatim takes the URL of the client and cannot take its #{name}; #{way}" if name
    end

    def given?(value) = value.respond_to?(:empty?) ? !value.empty? : value

    def build(options)
      return "unix://#{login(options)}#{options[:path]}#{"?db=#{options[:db]}" if options[:db].to_i.positive?}" if options[:path]

      scheme = options[:ssl] ? "rediss" : options.fetch(:scheme, "redis")
      host = options[:host].to_s
      host = "[#{host}]" if host.include?(":")
      "#{scheme}://#{login(options)}#{host}:#{options[:port]}/#{options[:db].to_i}"
    end

    # A user that the gem redis made up ("default") is the one without a name.
    def login(options)
      return "" unless given?(options[:password])

      "#{escape(options[:username].to_s)}:#{escape(options[:password].to_s)}@"
    end

    def escape(text) = text.b.gsub(/[^a-zA-Z0-9_.~-]/n) { |byte| format("%%%02X", byte.ord) }

    private_class_method :options, :namespace, :of_config, :refuse, :given?, :build, :login, :escape
  end
  private_constant :RedisClient
end
