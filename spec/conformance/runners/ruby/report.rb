# frozen_string_literal: true

module Conformance
  # Counts the checks and prints those that failed.
  class Report
    LONGEST = 2000 # of a line, in characters

    def initialize
      @lock = Mutex.new
      @scenarios = @checks = @failed = 0
    end

    def scenario = @scenarios += 1

    # One check: the block gives what was wrong, a list of texts.
    def check(where)
      wrong = Array(yield)
    rescue StandardError => e
      wrong = ["#{e.class}: #{e.message.lines.first&.chomp} (#{e.backtrace.first})"]
    ensure
      @lock.synchronize { count(where, wrong) }
    end

    # @return [Boolean] something ran and nothing failed
    def finish
      puts "#{@scenarios} scenarios, #{@checks} checks, #{@failed} failed"
      @checks.positive? && @failed.zero?
    end

    private

    def count(where, wrong)
      @checks += 1
      return if wrong&.empty?

      @failed += 1
      puts "FAILED #{where}: #{(wrong&.join("; ") || "ended")[0, LONGEST]}"
    end
  end
end
