# frozen_string_literal: true

module Seriatim
  # For Thread.handle_interrupt: a literal is made anew for every call.
  # @api private
  module Interrupts
    MASKED = { Object => :never }.freeze
    UNMASKED = { Object => :immediate }.freeze
  end
  private_constant :Interrupts
end
