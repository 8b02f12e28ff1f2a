# frozen_string_literal: true

require "bigdecimal"
require "json"

module Seriatim
  module ActiveJob
    # Serialized jobs as JSON and back. Integers of any size and every Float come back as they were, and so does a BigDecimal, which
    # ActiveJob leaves to the adapter before Rails 7.1.
    # @api private
    module Codec
      DECIMAL = "_seriatim_decimal"

      module_function

      # @param job [Hash]
      # @return [String]
      def dump(job) = JSON.generate(each_value(job) { |value| value.is_a?(BigDecimal) ? { DECIMAL => value.to_s } : value })

      # @return [Hash]
      def load(bytes)
        job = JSON.parse(bytes)
        bytes.include?(DECIMAL) ? each_value(job) { |value| decimal?(value) ? BigDecimal(value[DECIMAL]) : value } : job
      end

      def decimal?(value) = value.is_a?(Hash) && value.size == 1 && value.key?(DECIMAL)

      # The same structure with what the block gives for each value in it, inner ones first.
      def each_value(value, &block)
        case value
        when Hash then yield(value.transform_values { |inner| each_value(inner, &block) })
        when Array then value.map { |inner| each_value(inner, &block) }
        else yield(value)
        end
      end
      private_class_method :decimal?, :each_value
    end
  end
end
