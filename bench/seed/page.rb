# frozen_string_literal: true

# The page of a benchmark, in docs/benchmarks.
class Page
  TITLES = { process: "processing", single: "enqueueing, one job a call", bulk: "enqueueing, 1,000 jobs a call" }.freeze

  # @param side [Module] FromRuby or FromPython
  # @param titles [Hash{String=>String}] of those who took part, ours first
  def initialize(side:, titles:, race:, memory:, latency:, idle:, facts:)
    @side = side
    @titles = titles
    @race = race
    @memory = memory
    @latency = latency
    @idle = idle
    @facts = facts
  end

  def tables = [*skipped, rates, *TITLES.keys.map { |what| detail(what) }, memory, idle].join("\n")

  def to_s
    <<~TEXT
      # #{@side::TITLE}

      Written by `#{@side::COMMAND}`; run it to get your machine's. Blank jobs with distinct ids, #{Contestant::THREADS} threads, batch_size 1,
      #{@side::DEFAULTS},
      on one redis-server over loopback TCP that holds nothing on disk.

      ## Results

      #{tables}
      ## How

      - Processing: the queue is filled first, then the system's own command runs it. The clock starts when the first job
        begins and stops when the last one does, so that start-up counts for none.
      - Enqueueing: one process, one thread; the clock starts after a first push, which connects.
      - Each system gets as many jobs as take it about #{Race::SECONDS.to_i} s on this machine (found out by a run that does not count),
        because a rate over a tenth of a second says nothing. Rates and ratios are medians of #{Race::ROUNDS} rounds, in
        each of which the systems take turns; a ratio is one of the same round.
      - Memory: the difference of used_memory over #{Benchmark::WAITING.to_s.gsub(/(\d)(?=\d{3}$)/, '\1,')} waiting jobs with a payload of 30 bytes.
      - Latency: #{Idle::PUSHES} pushes, 20 ms apart, on a server that has nothing else to do; from just before the push to perform.
      - Idle: what the server's process sends in #{Idle::SECONDS} s by Redis' MONITOR, and its threads' CPU time by /proc.
      #{@side::NOTES.map { |note| "- #{note}\n" }.join}
      ## Machine

      #{table(%w[what value], @facts.map(&:itself))}
    TEXT
  end

  private

  def skipped
    @side::PEERS.except(*@titles.keys).values.map { |title| "**#{title} is missing here: it could not be installed.**\n" }
  end

  def rates
    rows = TITLES.map do |what, title|
      [title, *names.map { |name| thousands(@race.median(name, what)) }, *peers.map { |name| ratio(what, name) }]
    end
    table(["jobs/s, median", *@titles.values, *peers.map { |name| "times #{@titles[name]}" }], rows)
  end

  def names = @titles.keys
  def peers = names.drop(1)

  def ratio(what, name) = format("%.1f", @race.ratio(names.first, name, what))

  def detail(what)
    rows = @titles.map { |name, title| [title, thousands(@race.counts[[name, what]]), *@race.rates[[name, what]].map { |rate| thousands(rate) }] }
    table([TITLES[what], "jobs", *Array.new(Race::ROUNDS) { |round| "round #{round + 1}" }], rows)
  end

  def memory
    table(["Redis memory", "bytes a waiting job"], @memory.map { |name, bytes| [@titles[name], bytes.round] })
  end

  def idle
    rows = [["push to perform, p50", format("%.2f ms", @latency[0])], ["push to perform, p99", format("%.2f ms", @latency[1])]]
    @idle.each do |queues, (commands, cpu)|
      rows << ["idle, #{queues} #{queues == 1 ? "queue" : "queues"}", format("%.1f commands/s, %.2f %% CPU", commands, cpu)]
    end
    table(["Seriatim alone", ""], rows)
  end

  def table(head, rows)
    widths = [head, *rows].transpose.map { |column| column.map { |cell| cell.to_s.size }.max }
    lines = [head, widths.map { |width| "-" * width }, *rows].map do |row|
      "| #{row.zip(widths).map { |cell, width| cell.to_s.ljust(width) }.join(" | ")} |"
    end
    "#{lines.join("\n")}\n"
  end

  def thousands(number) = number.round.to_s.reverse.scan(/\d{1,3}/).join(",").reverse
end
