# frozen_string_literal: true

require "active_support/logger"

module Seriatim
  module Rails
    # Where the log of Seriatim goes in a Rails application.
    # @api private
    module LogTarget
      # The log of the command, and that of the application as well.
      class Both < Logger
        # @param own [Logger] whose level holds
        # @param other [Logger] which has a format of its own
        def initialize(own, other)
          @own = own
          @other = other
          super(nil, level: own.level)
        end

        def level = @own.level

        def level=(level)
          @own.level = level
        end

        def formatter = @own.formatter

        def add(level, message = nil, program = nil, &block)
          @own.add(level, message, program, &block)
          @other.add(level, message.is_a?(Log::Event) ? message.to_s : message, program, &block)
        end
      end

      module_function

      # Rails.logger, unless the application has set another.
      def use_application
        Seriatim.logger = ::Rails.logger if ::Rails.logger && Seriatim.logger && Log.ours?(Seriatim.logger)
      end

      # The command goes on writing its own log to the output that people and service managers read.
      # @param own [Logger] that of the command
      def add_command(own)
        logger = ::Rails.logger
        return unless logger && own && Seriatim.logger.equal?(logger)

        Seriatim.logger = ActiveSupport::Logger.logger_outputs_to?(logger, $stdout) ? own : Both.new(own, logger)
      end
    end
    private_constant :LogTarget

    # Called by the command when it has loaded the application.
    # @api private
    def self.loaded_by_command(own_logger) = LogTarget.add_command(own_logger)
  end
end
