# frozen_string_literal: true

require_relative "../lib/facts"
require_relative "../lib/from_ruby"
require_relative "../lib/text"

# docs/evidence/benchmarks/load.md
class LoadPage
  ROWS = {
    "stage one, largest backlog" => ->(result) { thousands(result.backlog) },
    "stage one, lag p50" => ->(result) { format("%.3f s", result.lag(0.5)) },
    "stage one, lag p99" => ->(result) { format("%.3f s", result.lag(0.99)) },
    "stage one, largest lag" => ->(result) { format("%.3f s", result.lags.last) },
    "stage two, largest backlog" => ->(result) { thousands(result.second_backlog) },
    "pushed in" => ->(result) { format("%.1f s", result.pushed_in) },
    "all done after" => ->(result) { format("%.1f s", result.drained) },
    "items done" => ->(result) { thousands(result.done) }
  }.freeze

  def self.thousands(number) = Text.thousands(number)

  def initialize(items, results, redis)
    @items = items
    @results = results
    @facts = Facts.all(redis).merge(FromRuby.facts, Facts.last)
  end

  def to_s
    <<~TEXT
      # The load test of a user

      Written by `bench/load_benchmark`; run it to get your machine's. The load test that a user of Lowkiq published in 2020,
      built anew: #{LoadTest::PRODUCERS} producers push #{LoadTest::RATE.to_i} items a second each, #{LoadPage.thousands(@items)} in all, one a call. The first stage (75 shards,
      batch_size 30) passes each on to the second (50 shards, batch_size 30), which sleeps 100 ms for each payload. Two
      server processes of #{LoadTest::THREADS} threads serve both. The user saw lags of up to 50 s and a backlog of 43,000 in the first stage.

      ## Results

      #{table}
      ## How

      - The second stage can do no more than 1,000 items a second (100 threads, 100 ms each) and gets 1,250: its backlog grows
        by design. The question is whether the first stage, which shares the threads, suffers.
      - Seriatim runs as it comes, with its scheduler by lag, and once more with its scheduler by priority and the first
        stage's `priority` raised, which is what the question asks for. Lowkiq splits the shards over the two nodes by
        `build_by_node_splitter`, with its hiredis driver.
      - Lag is from just before the push to the beginning of perform, of every item. The backlog is what was pushed and had not
        begun, at the worst moment. Both are told by what producers and workers note, not by either system's own figures.
      - One redis-server over loopback TCP that holds nothing on disk. One run each, one after the other. A load average far above
        ten says that other work took the processors meanwhile; that lengthens the lags of all.

      ## Machine

      #{rows(%w[what value], @facts.map(&:itself))}
    TEXT
  end

  def table
    rows(["", *@results.keys], ROWS.map { |title, figure| [title, *@results.values.map { |result| LoadPage.instance_exec(result, &figure) }] })
  end

  private

  def rows(head, rows) = Text.table(head, rows)
end
