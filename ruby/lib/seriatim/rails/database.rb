# frozen_string_literal: true

module Seriatim
  module Rails
    # What ActiveRecord needs of a server.
    # @api private
    module Database
      module_function

      # Warns when threads would wait for each other's connections.
      # @param threads [Integer] of the server that is about to start
      def check_pool(threads)
        return unless defined?(::ActiveRecord::Base)

        size = ::ActiveRecord::Base.connection_pool.size
        return if size.nil? || threads <= size # nil: Rails 8.1 and later have pools without a limit

        Log.warn("warning", "#{threads} threads share a database pool of #{size} connections, so jobs may wait for one and fail; " \
                            "set `pool` of config/database.yml to at least #{threads}, or give the server fewer threads (-c)")
      rescue ::ActiveRecord::ActiveRecordError
        nil # the application has no database
      end
    end
    private_constant :Database
  end
end
