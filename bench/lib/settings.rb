# frozen_string_literal: true

# How much is measured; smaller for a quick look.
module Settings
  ROUNDS = Integer(ENV.fetch("BENCH_ROUNDS", "5"))
  JOBS = Integer(ENV.fetch("BENCH_JOBS", "1000000")) # for ours; also the ids that wait for the figure of memory
  SECONDS = Float(ENV.fetch("BENCH_SECONDS", "10"))  # of one measurement of a peer
  ONLY = ENV.fetch("BENCH_ONLY", "").split(",").freeze # contestants and programs; empty: all
  PAGES = ENV.fetch("BENCH_PAGES", File.expand_path("../../docs/evidence/benchmarks", __dir__))

  module_function

  def wanted?(name) = ONLY.empty? || ONLY.include?(name)
end
