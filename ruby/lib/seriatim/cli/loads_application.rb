# frozen_string_literal: true

module Seriatim
  class CLI
    # How the commands that run in an application begin. It goes by @options, those of the command line.
    # @api private
    module LoadsApplication
      private

      # Logs to standard output, until the application has a logger of its own.
      # @raise [UsageError] there is no -r
      def prepare
        raise UsageError, "-r is missing: name the application's file or folder" unless @options[:require]

        @logger = Seriatim.logger = Log.default($stdout, format: @options[:log_format], level: level)
      end

      # Then @options has those of the file that the application read, too, if it is one of Rails.
      def load_application
        Application.load(@options[:require])
        Application.eager_load
        @options = ConfigFile.options.merge(@options)
        @logger.formatter = Log.formatter(@options[:log_format])
        @logger.level = level
        Seriatim.logger.level = Logger::DEBUG if @options[:verbose] && Seriatim.logger
      end

      def level = @options[:verbose] ? Logger::DEBUG : Logger::INFO
    end
    private_constant :LoadsApplication
  end
end
