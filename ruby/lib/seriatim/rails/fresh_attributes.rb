# frozen_string_literal: true

require "active_support/core_ext/class/subclasses"
require "active_support/current_attributes"

module Seriatim
  # Runs code with ActiveSupport::CurrentAttributes that nobody has set yet.
  # @api private
  module FreshAttributes
    module_function

    # Afterwards the classes have what they had before, whatever the block has set.
    # @param classes [Array<Class>]
    # @return what the block returned
    def call(classes = all)
      before = classes.to_h { |owner| [owner, owner.attributes.dup] }
      classes.each(&:reset)
      yield
    ensure
      before&.each { |owner, values| restore(owner, values) }
    end

    # An instance is found by the name of its class.
    def all = ::ActiveSupport::CurrentAttributes.descendants.select(&:name)

    # By the setters, which may set other things, too, such as Time.zone.
    def restore(owner, values)
      owner.reset
      values.each { |name, value| owner.public_send(:"#{name}=", value) unless owner.attributes[name].equal?(value) }
    end
    private_class_method :all, :restore
  end
  private_constant :FreshAttributes
end
