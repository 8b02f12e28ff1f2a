# frozen_string_literal: true

require "openssl"
require "socket"
require "timeout"
require "uri"

module Seriatim
  module Import
    # A connection to the Redis of another queue system: plain commands, one at a time. (The core's connections only run Seriatim's scripts.)
    # @api private
    class Redis
      SECONDS = 30 # that an answer may take
      FORMS = "redis://, rediss:// or unix://"
      NOT_READY = %w[LOADING BUSY MASTERDOWN TRYAGAIN CLUSTERDOWN].freeze # first words of errors that pass, as the core knows them
      private_constant :SECONDS, :FORMS, :NOT_READY

      # @param url [String] redis://, rediss:// or unix://, with user, password and database
      # @raise [ConnectionError]
      def initialize(url)
        @url = parse(url)
        @io = connect
        user, password = [@url.user, @url.password].map { |text| text.to_s.gsub(/%(\h\h)/) { $1.hex.chr } } # rubocop:disable Style/PerlBackrefs
        login = user.empty? ? [password] : [user, password] # a user with nopass takes any password
        call("AUTH", *login) unless login == [""]
        call("SELECT", database) unless database == "0"
      rescue SystemCallError, SocketError, OpenSSL::SSL::SSLError => e
        raise ConnectionError, "cannot connect to #{self}: #{e.message}"
      end

      # @return [String, Integer, Array, nil]
      # @raise [RedisError, NotReady, ConnectionError]
      def call(*words)
        words = words.map { |word| word.to_s.b }
        Timeout.timeout(SECONDS, TimeoutError, "no answer from #{self} in #{SECONDS} s") do
          @io.write("*#{words.size}\r\n", *words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" })
          read
        end
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError => e
        raise ConnectionError, "lost the connection to #{self}: #{e.message}"
      end

      def close = @io.close

      # Without the password.
      def to_s = @url.scheme == "unix" ? "unix://#{@url.path}" : "#{@url.scheme}://#{@url.host}:#{port}/#{database}"

      private

      def parse(url)
        parsed = URI.parse(url)
        %w[redis rediss unix].include?(parsed.scheme) ? parsed : raise(UsageError, "--from must be a URL #{FORMS}")
      rescue URI::InvalidURIError
        raise UsageError, "--from must be a URL #{FORMS}"
      end

      def port = @url.port || 6379
      def database = (@url.scheme == "unix" ? @url.query.to_s[/\bdb=(\d+)/, 1] : @url.path[/\d+/]) || "0"

      def connect
        return UNIXSocket.new(@url.path) if @url.scheme == "unix"

        io = TCPSocket.new(@url.hostname || "127.0.0.1", port, connect_timeout: SECONDS)
        io.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        @url.scheme == "rediss" ? secure(io) : io
      end

      def secure(io)
        context = OpenSSL::SSL::SSLContext.new.tap(&:set_params)
        OpenSSL::SSL::SSLSocket.new(io, context).tap do |secured|
          secured.hostname = @url.hostname
          secured.sync_close = true
          secured.connect
          secured.post_connection_check(@url.hostname)
        end
      end

      def read
        line = @io.gets("\r\n") or raise EOFError, "Redis has closed it"
        parse_reply(line[0], line[1..].chomp)
      end

      def parse_reply(type, text)
        case type
        when "+" then text
        when ":" then text.to_i
        when "-" then raise NOT_READY.include?(text.b[/\A\S*/]) ? NotReady : RedisError, "#{self}: #{text}"
        when "$" then text == "-1" ? nil : @io.read(text.to_i + 2)[0...-2]
        when "*" then text == "-1" ? nil : Array.new(text.to_i) { read }
        else raise RedisError, "#{self} does not answer as a Redis"
        end
      end
    end
  end
end
