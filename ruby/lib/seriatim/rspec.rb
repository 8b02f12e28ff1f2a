# frozen_string_literal: true

require "rspec/core"
require "rspec/expectations"
require "seriatim"
require "seriatim/testing/expectation"

module Seriatim
  # Matchers for RSpec, in the test modes :fake and :inline. `require "seriatim/rspec"` includes them in every example.
  #
  #   expect { order.pay }.to push_to(OrderWorker).with_id(7).with_payload(hash_including("status" => "paid")).in(60).once
  #   expect { order.pay }.not_to push_to(MailWorker)
  module RSpec
    # @return [PushTo]
    def push_to(worker) = PushTo.new(worker)

    # Matches a block that pushes jobs. Each method takes a value or a matcher.
    class PushTo
      include ::RSpec::Matchers::Composable

      def initialize(worker)
        @expectation = Testing.module_eval { const_get(:Expectation) }.new(worker, ->(expected, actual) { values_match?(expected, actual) })
      end

      # @!method with_id(id)
      # @!method with_payload(payload) Symbols in it stand for Strings
      # @!method with_score(score) nil: none was given
      # @!method with_context(context)
      # @!method with_on_waiting(word)
      %i[id payload score context on_waiting].each do |field|
        define_method(:"with_#{field}") { |value| @expectation.public_send(field, value) && self }
      end

      # The Time or Unix seconds of perform_in, perform_at or deliver_at.
      def at(time) = @expectation.at(time) && self

      # The seconds of delay or deliver_in; of a job with perform_in, perform_at or deliver_at, the seconds from its push to that time.
      def in(seconds) = @expectation.in(seconds) && self

      # How many jobs match.
      def exactly(count) = @expectation.exactly(count) && self
      def once = exactly(1)
      def twice = exactly(2)

      # So that it reads `exactly(3).times`.
      def times = self

      # ---- as RSpec calls it

      def supports_block_expectations? = true
      def supports_value_expectations? = false
      def description = @expectation.description
      def failure_message = @expectation.message
      def failure_message_when_negated = @expectation.message(negated: true)
      def matches?(block) = @expectation.met?(pushed_by(block))
      def does_not_match?(block) = @expectation.unmet?(pushed_by(block))

      private

      def pushed_by(block)
        before = Testing.pushed.size
        block.call
        Testing.pushed.drop(before)
      end
    end
  end
end

RSpec.configure { |config| config.include Seriatim::RSpec }
