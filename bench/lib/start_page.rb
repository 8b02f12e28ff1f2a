# frozen_string_literal: true

require_relative "facts"
require_relative "figures"
require_relative "plot"
require_relative "settings"
require_relative "start"
require_relative "text"

# docs/evidence/benchmarks/start.md, the plots beside it, and what bench/run shows of it.
class StartPage
  TITLE = "Start and footprint of a server"
  COLUMNS = ["", "start to first job, ms", "PSS, MB", "RSS, MB", "processes"].freeze

  def initialize(start, missing, facts)
    @start = start
    @missing = missing
    @facts = facts
  end

  def to_s
    <<~TEXT.gsub(/\n{3,}/, "\n\n")
      # #{TITLE}

      Written by `bench/start`; run it to get your machine's. Servers of one queue with 5 threads, every system with its defaults;
      medians of #{Settings::ROUNDS} rounds in which they take turns.

      #{@missing.texts.map { |text| "- **Missing here:** #{text}\n" }.join}
      #{Text.table(COLUMNS, rows)}
      #{plots.keys.map { |name| "![#{name[/-(\w+)/, 1]}](#{name})\n" }.join("\n")}
      - Start: one job waits in an empty Redis; the time from just before the server's process is started until perform is called, with the
        loading of the interpreter, the library and an application of one worker.
      - Memory: #{Start::IDLE} s after the start, when that job is done and nothing else comes, by /proc/PID/smaps_rollup of all processes of the
        server. PSS counts a page that several processes share in parts, RSS in each.

      ## Versions and machine

      #{Text.table(%w[what value], @facts.merge(Facts.last).map(&:itself))}
    TEXT
  end

  # @return [Hash{String=>String}] SVG by file name
  def plots
    @plots ||= { "start-time.svg" => bars("From the start of a server to its first job", "milliseconds", :seconds, 1e3),
                 "start-memory.svg" => bars("Memory of an idle server (PSS)", "MB", :pss, 1e-6) }.compact
  end

  # @return [Figures]
  def summary = Figures.new(TITLE, COLUMNS, rows)

  private

  def measured = @start.contestants.select { |contestant| @start.measured?(contestant.name) }

  def rows
    measured.map do |contestant|
      seconds, pss, rss, processes = Start::Figures.members.map { |field| @start.figure(contestant.name, field) }
      [contestant.title, (seconds * 1000).round, format("%.1f", pss / 1e6), format("%.1f", rss / 1e6), processes]
    end
  end

  def bars(title, unit, field, times)
    rows = measured.map do |contestant|
      value = @start.figure(contestant.name, field) * times
      [contestant.title, contestant.ours?, [value], value.round.to_s]
    end
    Plot.bars(title, unit, rows, [unit]) unless rows.empty?
  end
end
