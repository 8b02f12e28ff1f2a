# frozen_string_literal: true

require "minitest"
require "minitest/assertions"
require "seriatim"
require "seriatim/testing/expectation"

module Seriatim
  # Assertions for Minitest, in the test modes :fake and :inline. `require "seriatim/minitest"` includes them in every test.
  #
  #   assert_pushed(OrderWorker, id: 7, payload: { status: "paid" }, in: 60, times: 1) { order.pay }
  #   refute_pushed(MailWorker) { order.pay }
  module Minitest
    # Asserts that such jobs were pushed, by the block or, without one, since the test mode began. Values are compared by === and ==, so they
    # may be classes, patterns or lambdas.
    # @param expected [Hash] of id, payload, score, context, on_waiting, at (Time or Unix seconds), in (seconds from the push), and times: how
    #   many (Integer or Range; one or more, where it is not given)
    # @return [true]
    def assert_pushed(worker, **expected, &block)
      expectation = seriatim_expectation(worker, expected)
      met = expectation.met?(seriatim_pushed_by(block))
      assert(met, met ? nil : expectation.message)
    end

    # Asserts that no such job was pushed.
    # @param expected [Hash] as of {#assert_pushed}; times has no effect
    # @return [true]
    def refute_pushed(worker, **expected, &block)
      expectation = seriatim_expectation(worker, expected)
      unmet = expectation.unmet?(seriatim_pushed_by(block))
      refute(!unmet, unmet ? nil : expectation.message(negated: true))
    end

    private

    FIELDS = %i[id payload score context on_waiting at in times].freeze
    private_constant :FIELDS

    def seriatim_expectation(worker, expected)
      unknown = expected.keys - FIELDS
      raise Invalid, "unknown field #{unknown.first.inspect}; known are #{FIELDS.join(", ")}" unless unknown.empty?

      expected.each_with_object(Testing.module_eval { const_get(:Expectation) }.new(worker)) do |(field, value), expectation|
        expectation.public_send(field == :times ? :exactly : field, value)
      end
    end

    def seriatim_pushed_by(block)
      before = block ? Testing.pushed.size : 0
      block&.call
      Testing.pushed.drop(before)
    end
  end
end

Minitest::Assertions.include(Seriatim::Minitest)
