# frozen_string_literal: true

require "open3"
require_relative "spec_helper"

# The kit's command against applications as users have them.
RSpec.describe "A user's worker in the crash kit" do
  ROOT = Language::ROOT
  RUN = "#{ROOT}/spec/crash/run"

  def storm(language, *counts)
    commands = Language::ALL.fetch(language)
    variables = { "PYTHONPATH" => "#{ROOT}/python:#{__dir__}", "LUA_PATH" => "#{ROOT}/lua/?.lua;#{__dir__}/?.lua;;",
                  "LUA_CPATH" => commands.variables["LUA_CPATH"] }
    app = { "ruby" => "rb", "python" => "py", "lua" => "lua" }.fetch(language)
    Open3.capture2e(variables, RUN, "--queue", "OrderWorker", "--payload", '{"version": %d}', *counts, "--",
                    *commands.server[0..-2], "#{__dir__}/own/orders.#{app}")
  end

  %w[ruby python lua].each do |language|
    it "F1 in #{language} is killed at random, killed at eight points and frozen, by one command" do
      counts = Figures.count(%w[--kills 4 --steps 1 --freezes 1], %w[--kills 200 --steps 20 --freezes 10])
      output, status = storm(language, *counts)
      expect(status).to be_success, output
      expect(output).to include("0 lost, 0 out of order, 0 concurrent")
      Figures.note("F1", "one's own worker in #{language}: SIGKILLs", output.scan(/(\d+) (?:random )?SIGKILLs/).sum { |(count)| count.to_i })
    end
  end

  it "F1 is refused with a message when it does not load record" do
    output, status = Open3.capture2e(RUN, "--queue", "OrderWorker", "--patience", "2", "--", "sleep", "60")
    expect(status.exitstatus).to eq(1)
    expect(output).to include("does the worker load record?")
    FileUtils.rm_rf(output[/journal and logs are kept in (\S+)/, 1])
  end
end
