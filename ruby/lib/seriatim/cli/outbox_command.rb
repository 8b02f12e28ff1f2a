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
        @logger = Seriatim.logger = Log.default($stdout, format: @options[:log_format], level: level)
        Application.load(path)
        Application.eager_load
        read_options
        PrivateRedis.url if RedisUrl.none?
        relay.run(Signals.new(%w[TERM INT]))
        Log.info("outbox", "stopped")
        STOPPED
      end

      private

      # Of the file that the application read, if it is one of Rails.
      def read_options
        @options = ConfigFile.options.merge(@options)
        @logger.formatter = Log.formatter(@options[:log_format])
        @logger.level = level
      end

      def level = @options[:verbose] ? Logger::DEBUG : Logger::INFO

      def relay
        Outbox::Relay.new
      rescue LoadError => e
        raise UsageError, "the outbox needs ActiveRecord: #{e.message}"
      end
    end
    private_constant :OutboxCommand
  end
end
