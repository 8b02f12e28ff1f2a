# frozen_string_literal: true

require "socket"
require "seriatim/server/signals"
require "seriatim/web"
require "seriatim/web/stand_alone"

module Seriatim
  class CLI
    # Serves the dashboard until TERM or INT.
    # @api private
    class WebCommand
      BIND = "127.0.0.1"
      PORT = 9292
      POLLS = 1000 # pops that may wait at once, unless the application has set polls
      LOCAL_HOSTS = %w[localhost 127.0.0.1 [::1]].freeze
      private_constant :BIND, :PORT, :POLLS, :LOCAL_HOSTS

      def initialize(options)
        @options = options
        @bind = options.fetch(:bind, BIND)
        @port = Validate.integer("--port", options.fetch(:port, PORT), 0..65_535)
        @token = options[:token] && Validate.text("--token", options[:token], 1..1024)
      end

      # @return [Integer] the exit code
      def run
        Application.load_with_workers(@options[:require]) if @options[:require]
        @token ||= token_of_environment
        listener = open
        PrivateRedis.url if RedisUrl.none?
        web = app
        server = Web::StandAlone.new(listener, web, web.consume ? web.polls_or(POLLS) : 0).start
        announce(listener)
        serve(server)
      ensure
        File.unlink(path) if listener && path && File.socket?(path)
      end

      private

      # A dashboard is of use also where nobody reads this. Ruby has put a pipe without a reader in place of a closed standard output.
      def announce(listener)
        puts "seriatim: the dashboard is at #{address(listener)}"
        $stdout.flush
      rescue Errno::EPIPE
        nil
      end

      def serve(server)
        signals = Signals.new(%w[TERM INT])
        return CRASHED unless server.running? until signals.wait(1)
        server.stop
        STOPPED
      end

      # An empty one is a mistake, and does not mean that there is no token.
      def token_of_environment = ENV.fetch("SERIATIM_WEB_TOKEN", nil)&.then { |token| Validate.text("SERIATIM_WEB_TOKEN", token, 1..1024) }

      # What the application configured; the command line adds to it.
      def app
        settings = { token: @token, read_only: @options[:read_only], consume: @options[:consume] }.compact
        settings[:hosts] = hosts unless path
        Web.new(**settings)
      end

      # A page of another site whose name was bound to 127.0.0.1 has that name as its Host; with a token it has no token.
      def hosts = token ? Web.configured.hosts : LOCAL_HOSTS | [literal(@bind)] | Web.configured.hosts

      def token = @token || Web.configured.token

      # ---- where

      # @return [String, nil] of a Unix socket
      def path = @bind[%r{\Aunix:(?://)?(.+)\z}m, 1]

      def open
        path ? open_unix : open_tcp
      rescue SystemCallError, SocketError => e
        raise UsageError, "cannot listen on #{@bind}: #{e.message}"
      end

      def open_tcp
        address = Addrinfo.getaddrinfo(@bind, nil, nil, :STREAM).first
        unless token || address.ipv4_loopback? || address.ipv6_loopback?
          raise UsageError, "--bind #{@bind} is not a loopback address: other machines could reach the dashboard; set SERIATIM_WEB_TOKEN or --token"
        end

        TCPServer.new(address.ip_address, @port)
      end

      # Only this user may connect. What a dead process left behind is in nobody's use.
      def open_unix
        raise UsageError, "--port and a Unix socket exclude each other" if @options[:port]

        File.unlink(path) if File.socket?(path) && abandoned?
        before = File.umask(0o177)
        UNIXServer.new(path)
      ensure
        File.umask(before) if before
      end

      def abandoned?
        UNIXSocket.new(path).close
        false
      rescue Errno::ECONNREFUSED
        true
      end

      def address(listener) = path ? "unix:#{path}" : "http://#{literal(@bind)}:#{listener.local_address.ip_port}/"

      def literal(address) = address.include?(":") ? "[#{address}]" : address
    end
    private_constant :WebCommand
  end
end
