# frozen_string_literal: true

require "set"
require "seriatim/testing"

module Seriatim
  module Testing
    # Which pushed jobs a matcher or an assertion means, and how many of them.
    # @api private
    class Expectation
      SECOND = 1.0 # tolerance of a time that is told from now
      MILLISECOND = 0.001
      private_constant :SECOND, :MILLISECOND

      # @param matches [#call] (expected, actual): is it what was meant?
      def initialize(worker, matches = Expectation.method(:same?))
        raise Invalid, "push_to takes a worker, not #{Validate.describe(worker)}" unless worker.is_a?(Worker)

        @worker = worker
        @matches = matches
        @rules = {}
      end

      def id(value) = rule(:id, value.is_a?(Symbol) || value.is_a?(Integer) ? value.to_s : value) { |job| job.id }
      def payload(value) = rule(:payload, Expectation.as_read(value)) { |job| job.payload }
      def score(value) = rule(:score, value) { |job| job.score }
      def context(value) = rule(:context, Expectation.as_read(value)) { |job| job.context }
      def on_waiting(value) = rule(:on_waiting, value.respond_to?(:to_sym) ? value.to_sym : value) { |job| job.on_waiting }
      def at(value) = time(:at, value, MILLISECOND) { |job| job.time }
      def in(value) = time(:in, value, SECOND) { |job| job.time && (job.time - job.at) }

      # @param count [Integer, Range] how often; never asked for: once or more
      def exactly(count) = (@count = count) && self

      # Was it pushed as often as it was to be?
      # @param pushed [Array<Pushed>]
      def met?(pushed)
        @pushed = pushed.select { |job| job.queue == @worker.queue_name }
        @found = @pushed.count { |job| @rules.all? { |_, (_, test)| test.call(job) } }
        @count ? @count === @found : @found.positive? # rubocop:disable Style/CaseEquality
      end

      # Was nothing of it pushed?
      def unmet?(pushed) = met?(pushed) | true && @found.zero?

      def description
        rules = @rules.map { |name, (value, _)| "#{name} #{value.inspect}" }
        ["push to #{@worker}", ("with #{rules.join(", ")}" unless rules.empty?), (@count && "(#{@count} times)")].compact.join(" ")
      end

      def message(negated: false)
        jobs = @pushed.map { |job| "  #{told(job)}" }
        head = "expected #{"not " if negated}to #{description}, but #{@found} of #{@pushed.size} pushed jobs match"
        [jobs.empty? ? head : "#{head}:", *jobs].join("\n")
      end

      # By == and ===, in Hashes and Arrays value by value: so classes, patterns and lambdas may stand in them.
      def self.same?(expected, actual)
        return true if expected == actual || expected === actual # rubocop:disable Style/CaseEquality

        case expected
        when Hash then actual.is_a?(Hash) && expected.keys.to_set == actual.keys.to_set && expected.all? { |key, value| same?(value, actual[key]) }
        when Array then actual.is_a?(Array) && expected.size == actual.size && expected.zip(actual).all? { |pair| same?(*pair) }
        else false
        end
      end

      # A payload as its worker will read it: Symbols become Strings. Matchers of a framework stay.
      def self.as_read(value)
        case value
        when Symbol then value.name
        when Hash then value.to_h { |key, inner| [key.is_a?(Symbol) ? key.name : key, as_read(inner)] }
        when Array then value.map { |inner| as_read(inner) }
        else value
        end
      end

      private

      def told(job)
        times = { time: job.time && Time.at(job.time), score: job.score, context: (job.context unless job.context.empty?), on_waiting: job.on_waiting }
        ["id #{job.id.inspect}", "payload #{job.payload.inspect}", *times.compact.map { |name, value| "#{name} #{value.inspect}" }].join(", ")
      end

      def rule(name, value)
        @rules[name] = [value, ->(job) { @matches.call(value, yield(job)) }]
        self
      end

      def time(name, value, tolerance)
        number = Jobs.unix_time(value) { nil }
        @rules[name] = [value, lambda do |job|
          actual = yield(job)
          number ? actual && (actual - number).abs <= tolerance : @matches.call(value, actual)
        end]
        self
      end
    end
    private_constant :Expectation
  end
end
