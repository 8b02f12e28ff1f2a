# frozen_string_literal: true

# What every spec of the crash kit begins with: a Kit for each example, closed after it.
require_relative "kit/kit"
require_relative "../support/figures"
require "timeout"

# include CrashKit: `kit` is the example's own. Its journal and logs are kept when the example fails.
module CrashKit
  def self.included(group)
    group.after do |example|
      report "journal and logs are kept in #{@kit.keep}" if @kit && example.exception
      @kit&.close
    end
  end

  def kit = @kit ||= Kit.new(seed: RSpec.configuration.seed)

  def report(text) = RSpec.configuration.reporter.message("    #{text}")

  # What must hold after every storm.
  def expect_all_well(kit = self.kit)
    verdict = kit.verdict
    expect(verdict.faults).to eq({})
    expect(kit.leftovers).to eq([])
    verdict
  end
end

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.example_status_persistence_file_path = nil
  config.seed = Integer(ENV.fetch("SEED") { Figures.count(1, rand(100_000)) })
  config.order = :defined
  config.before(:suite) { config.reporter.message("SEED=#{config.seed} plays this again") }

  config.around do |example|
    Timeout.timeout(example.metadata.fetch(:limit, Figures.count(1500, 3600))) { example.run }
  end
end
