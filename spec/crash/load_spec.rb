# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../../bench/load/load_test"

# LK-A-36: the load test of a user, whose first stage starved behind its second. bench/load_benchmark is its long form, beside
# Lowkiq.
RSpec.describe "Load" do
  include CrashKit

  def run(items, environment = {})
    folder = File.join(kit.folder, "load")
    Dir.mkdir(folder)
    LoadTest.new("seriatim", kit.redis.url, folder, items: items, environment: environment, patience: 300).run
  end

  it "F35 LK-A-36 the first of two chained queues keeps up, and nothing is lost", limit: 400 do
    items = Figures.count(2_000, 50_000)
    result = run(items, "LOAD_PRIORITY" => "1")
    expect(result.done).to eq(items)
    expect(result.backlog).to be <= 1_000
    expect(result.lag(0.99)).to be < 5 # 0.1 on a quiet machine; who starves waits for the whole load
    %w[First Second].each { |queue| expect(kit.queue(queue).actions.check[:findings]).to eq([]) }
    Figures.note("LK-A-36", "items through two chained queues", items)
    Figures.note("LK-A-36", "stage one: largest backlog", result.backlog)
    Figures.note("LK-A-36", "stage one: lag p50, p99, s", [result.lag(0.5), result.lag(0.99)].map { |lag| lag.round(3) }.join(", "))
  end
end
