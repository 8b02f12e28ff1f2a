# frozen_string_literal: true

require "seriatim/server/signals"

module Seriatim
  class CLI
    # Pushes what the application commits to its outbox, until TERM or INT.
    # @api private
    class OutboxCommand
      def initialize(options)
        @options = options
      end

      # @return [Integer] the exit code
      def run
        path = @options[:require] or raise UsageError, "-r is missing: name the application's file or folder"
        Seriatim.logger = Log.default($stdout, format: @options[:log_format], level: @options[:verbose] ? Logger::DEBUG : Logger::INFO)
        Application.load(path)
        Application.eager_load
        PrivateRedis.url if RedisUrl.none?
        relay.run(Signals.new(%w[TERM INT]))
        Log.info("outbox", "stopped")
        STOPPED
      end

      private

      def relay
        Outbox::Relay.new
      rescue LoadError => e
        raise UsageError, "the outbox needs ActiveRecord: #{e.message}"
      end
    end
    private_constant :OutboxCommand
  end
end
