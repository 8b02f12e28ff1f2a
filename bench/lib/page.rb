# frozen_string_literal: true

require_relative "goals"
require_relative "line_plot"
require_relative "plot"
require_relative "settings"
require_relative "text"

# docs/evidence/benchmarks/speed.md and the plots beside it.
class Page
  def initialize(results, facts)
    @results = results
    @race = results.race
    @facts = facts.merge(Facts.last)
  end

  # What is printed at the end of a run.
  def tables = [missing, goals, processing, times, enqueueing, latency, idle, *programs].compact.join("\n")

  def to_s
    <<~TEXT.gsub(/\n{3,}/, "\n\n")
      # Speed

      Written by `bench/run`; run it to get your machine's. Seriatim in its languages beside its peers, all in one run on one
      redis-server over loopback TCP: blank jobs with distinct ids, #{Contestant::THREADS} threads, batch_size 1, every system with its defaults
      and every promise on.#{quick}

      #{missing}
      #{goals}
      #{figures}
      ## Results

      #{[processing, times, enqueueing, latency, idle, *programs].compact.join("\n")}
      ### Every round

      #{Race::DISCIPLINES.map { |what| rounds(what) }.join("\n")}
      ## How

      #{method}
      ## Versions and machine

      #{table(%w[what value], @facts.map(&:itself))}
    TEXT
  end

  # @return [Hash{String=>String}] SVG by file name
  def plots
    @plots ||= { "speed-processing.svg" => processing_plot, "speed-enqueueing.svg" => enqueueing_plot, "speed-latency.svg" => latency_plot,
                 "speed-growth.svg" => growth_plot }.compact
  end

  private

  def quick
    return if Settings::ROUNDS >= 5 && Settings::JOBS >= 1_000_000 && Settings::SECONDS >= 10

    "\n\n**A shorter run than the default (#{Settings::ROUNDS} rounds, #{thousands(Settings::JOBS)} jobs, #{Settings::SECONDS.round} s a peer and round).**"
  end

  def missing = @results.missing.texts.map { |text| "- **Missing here:** #{text}\n" }.join
  def goals = "## Goals\n\n#{table(%w[goal measured met], Goals.new(@results).rows)}"
  def figures = plots.keys.map { |name| "![#{name[/-(\w+)/, 1]}](#{name})\n" }.join("\n")

  def processing
    rows = @results.in(:process).map do |contestant|
      rate, cpu, commands, memory = %i[rate redis_cpu commands memory].map { |field| @race.figure(contestant.name, :process, field) }
      [contestant.title, thousands(rate), format("%.1f", cpu), format("%.2f", commands), (memory / 1e6).round]
    end
    section("Processing", ["", "jobs/s", "Redis CPU, us a job", "Redis commands a job", "peak RSS, MB"], rows)
  end

  # Ours by theirs.
  def times
    peers = @results.in(:process).reject(&:ours?)
    return if peers.empty?

    rows = @results.in(:process).select(&:ours?).map do |ours|
      [ours.title, *peers.map { |peer| format("%.1f", @race.ratio(ours.name, peer.name, :process)) }]
    end
    section("Processing: times as fast as", ["", *peers.map(&:title)], rows)
  end

  def enqueueing
    rows = @results.in(:bulk).map do |contestant|
      rates = %i[single together pipelined bulk].map { |what| @race.figure(contestant.name, what) }
      bytes = @results[:memory][contestant.name]
      [plain(contestant), *rates.map { |rate| rate ? thousands(rate) : "-" }, bytes ? bytes.round : "-"]
    end
    section("Enqueueing", ["", "one a call, jobs/s", "8 threads, one a call", "8 threads, pipelines of 100 calls", "10,000 a call", "Redis memory, bytes a waiting job"], rows)
  end

  def latency
    rows = timed.map { |contestant| [plain(contestant), *@results[:latency][contestant.name].map { |ms| format("%.2f", ms) }] }
    section("From push to perform on an idle server, ms", ["", *Idle::SHARES.keys], rows)
  end

  def idle
    rows = @results[:idle].map { |queues, (commands, cpu)| [queues, format("%.1f", commands), format("%.2f", cpu)] }
    section("Idle: what a server without work costs (Seriatim, Ruby)", ["queues", "Redis commands/s", "CPU, %"], rows)
  end

  def programs
    @results[:programs].values.map do |figures|
      "#{section(figures["title"], figures["columns"], figures["rows"])}#{figures.fetch("notes", []).map { |note| "\n#{note}\n" }.join}"
    end
  end

  def rounds(what)
    rows = @results.in(what).map do |contestant|
      [contestant.title, thousands(@race.counts[[contestant.name, what]]), *@race.rates(contestant.name, what).map { |rate| rate ? thousands(rate) : "-" }]
    end
    table(["#{what}, jobs/s", "jobs", *Array.new(Settings::ROUNDS) { |round| "round #{round + 1}" }], rows)
  end

  def timed = @results.contestants.select { |contestant| @results[:latency].key?(contestant.name) }

  # Its title where concurrency counts for nothing.
  def plain(contestant) = contestant.title.sub(/ \(\d+\)/, "")

  def processing_plot
    bars("Processing blank jobs", @results.in(:process), %i[process], %w[processing]) { |contestant| contestant.title }
  end

  def enqueueing_plot
    both = @results.in(:bulk).select { |contestant| @race.figure(contestant.name, :single) }
    bars("Enqueueing from one thread", both, %i[single bulk], ["one a call", "10,000 a call"]) { |contestant| plain(contestant) }
  end

  def bars(title, contestants, disciplines, kinds)
    rows = contestants.map do |contestant|
      values = disciplines.map { |what| @race.figure(contestant.name, what) }
      [yield(contestant), contestant.ours?, values, values.map { |value| thousands(value) }.join(" / ")]
    end
    Plot.bars(title, "jobs a second", rows, kinds) unless rows.empty?
  end

  def latency_plot
    rows = timed.map do |contestant|
      values = @results[:latency][contestant.name]
      [plain(contestant), contestant.ours?, values, values.map { |ms| ms.round(ms < 10 ? 1 : 0) }.join(" / ")]
    end
    Plot.dots("From push to perform on an idle server", "milliseconds", rows, Idle::SHARES.keys) unless rows.empty?
  end

  # Each column of microseconds is a line; the rows, by their number of ids, are its points.
  def growth_plot
    growth = @results[:programs]["growth"] or return
    rows = growth["rows"].select { |row| row.first.end_with?(" ids") }
    lines = growth["columns"].each_with_index.filter_map do |column, at|
      [column.delete_suffix(", us"), rows.map { |row| [row.first.delete(",").to_i, row[at].to_f] }] if column.end_with?(", us")
    end
    LinePlot.new("What a job costs beside waiting ids", "ids that wait", "Redis CPU, us a job", lines.to_h).to_s if rows.size > 1
  end

  def section(title, head, rows) = rows.empty? ? nil : "### #{title}\n\n#{table(head, rows)}"

  def table(head, rows) = Text.table(head, rows)

  def thousands(number) = Text.thousands(number)

  def method
    <<~TEXT
      - Rates are medians of #{Settings::ROUNDS} rounds in which the systems take turns; a ratio is the median of the ratios of each round, for
        what slows the machine down in one slows down both.
      - Processing: the queue is filled first, then the system's own command runs it. The clock starts when the first job begins
        and stops when the last one ends, so that start-up counts for none. Ours get #{thousands(Settings::JOBS)} jobs, the others as many as
        take them about #{Settings::SECONDS.round} s (found out by a run that does not count).
      - Redis CPU and commands are what INFO says before the server starts and when the last job has ended; commands that scripts
        call are counted, too. RSS is the highest that the server's processes reached, summed up.
      - Enqueueing: one process, one thread if it does not say 8; the clock starts after a first push, which connects. 8 threads have a
        connection each; pipelines of Lua come from one thread. 10,000 a call are at most #{thousands(Race::MOST[:bulk])} jobs in slices of 10,000.
      - Redis memory: the difference of used_memory over #{thousands(Settings::JOBS)} waiting jobs with payloads of 30 bytes (others: at most #{thousands(Suite::PEERS_WAITING)}).
        All of ours write the same, so one is measured.
      - Latency: #{Idle::PUSHES} pushes by another process, #{Idle::RATE} a second, to a server that has nothing else to do, in each of #{Settings::ROUNDS} rounds,
        of which the medians count; from just before the push to perform, by the machine's monotonic clock (Lua: its system clock). A push
        that is late because of the one before it counts from its time of the schedule.
      - Idle: what the server sends in #{Idle::SECONDS} s by Redis' MONITOR, and its threads' CPU time by /proc.
      - Peers: Lowkiq with its hiredis driver. Sidekiq's bulk is push_bulk with batch_size 10,000. BullMQ (5) and (50) are its
        concurrency, the better one counts; it keeps its completed jobs, as is its default. Celery has no result backend; it is
        the faster of `-P threads -c 5` and `-P prefork -c 2` in a trial; it has no call for many jobs, so its bulk is one call
        a job with one producer. RQ runs its SimpleWorker, its fastest, which forks for no job and has one thread.
      - Lua's threads have states of their own; they count their jobs in a file that all append to, in blocks of 100. The last
        blocks (at most 396 jobs) are not waited for: the time is that of those counted, in proportion.
    TEXT
  end
end
