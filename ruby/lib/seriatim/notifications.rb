# frozen_string_literal: true

module Seriatim
  # Events for ActiveSupport::Notifications: perform.seriatim, push.seriatim and fail.seriatim. Without Rails nobody is told.
  # @api private
  module Notifications
    class << self
      # @return [#instrument, nil] ActiveSupport::Notifications where Rails is: process-wide state
      attr_accessor :notifier
    end

    module_function

    # @param payload [Hash] which the block may add to
    # @return what the block returned
    def instrument(name, payload, &block)
      notifier = Notifications.notifier
      notifier ? notifier.instrument("#{name}.seriatim", payload, &block) : yield(payload)
    end
  end
  private_constant :Notifications
end
