# frozen_string_literal: true

require "socket"
require "timeout"
require "uri"

module Seriatim
  # A few plain commands, for what the core has no call for: CONFIG GET at the start, SCAN for the names of queues.
  # @api private
  class RawRedis
    class Refused < StandardError; end

    SECONDS = 5

    def self.open(url)
      Timeout.timeout(SECONDS) do
        redis = new(URI.parse(url))
        begin
          yield redis
        ensure
          redis.close
        end
      end
    end

    def initialize(uri)
      @socket = connect(uri)
      user, password = [uri.user, uri.password].map { |part| part && URI.decode_www_form_component(part) }
      call("AUTH", *[user, password].compact.reject(&:empty?)) if password
      database = uri.scheme == "unix" ? uri.query.to_s[/db=(\d+)/, 1] : uri.path.to_s.delete("/")
      call("SELECT", database) unless database.to_s.empty?
    end

    def call(*words)
      @socket.write("*#{words.size}\r\n", *words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" })
      read
    end

    def close = @socket.close

    private

    def connect(uri)
      return UNIXSocket.new(URI.decode_www_form_component(uri.path)) if uri.scheme == "unix"

      host = uri.hostname.to_s.empty? ? "127.0.0.1" : uri.hostname
      socket = TCPSocket.new(host, uri.port || 6379)
      uri.scheme == "rediss" ? secure(socket, host) : socket
    end

    def secure(socket, host)
      require "openssl"
      context = OpenSSL::SSL::SSLContext.new
      context.set_params
      OpenSSL::SSL::SSLSocket.new(socket, context).tap do |tls|
        tls.hostname = host
        tls.sync_close = true
        tls.connect
        tls.post_connection_check(host)
      end
    end

    def read
      line = @socket.gets("\r\n") or raise IOError, "Redis closed the connection"
      kind, rest = line[0], line[1..].chomp
      case kind
      when "+", ":" then rest
      when "-" then raise Refused, rest
      when "$" then rest == "-1" ? nil : @socket.read(rest.to_i + 2)[0...-2]
      when "*" then Array.new([rest.to_i, 0].max) { read }
      else raise IOError, "unexpected answer from Redis"
      end
    end
  end
  private_constant :RawRedis
end
