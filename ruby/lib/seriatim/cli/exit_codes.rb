# frozen_string_literal: true

module Seriatim
  class CLI
    STOPPED, CRASHED, USAGE, NO_REDIS = 0, 1, 2, 3

    # What kind of error ended the command.
    # @api private
    module Failure
      # Does the error mean that Redis cannot be used? Redis answers those whose time has passed because no server moves the ids or
      # shards that they wait for.
      def self.no_redis?(error)
        case error
        when AuthError, NotReady then true
        when ConnectionError then !error.message.start_with?("timed out: ")
        else false
        end
      end
    end
  end
end
