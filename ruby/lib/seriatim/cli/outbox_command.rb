# frozen_string_literal: true

require "seriatim/cli/loads_application"
require "seriatim/server/signals"

module Seriatim
  class CLI
    # Pushes what the application commits to its outbox, until TERM or INT.
    # @api private
    class OutboxCommand
      include LoadsApplication

      def initialize(options)
        @options = options
      end

      # @return [Integer] the exit code
      def run
        prepare
        load_application
        Application.load_named
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
