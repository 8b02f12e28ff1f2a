# frozen_string_literal: true

require_relative "facts"
require_relative "figures"
require_relative "goals"
require_relative "line_plot"
require_relative "plot"
require_relative "settings"
require_relative "text"
require_relative "trickle"

# docs/evidence/benchmarks/trickle.md, the plots beside it, and what bench/run shows of it.
class TricklePage
  LIMITS = { 100 => 1.3, 500 => 1.3, 2000 => 1.3, 8000 => 1.1 }.freeze # of Redis' CPU, times Sidekiq's
  OURS = "ruby"
  PEER = "sidekiq"
  ENDLESS = 1000.0 # stands for a ratio without end
  PLOTTED = 500 # jobs a second, of the plot of latency

  def initialize(trickle, missing, facts)
    @trickle = trickle
    @missing = missing
    @facts = facts
  end

  def to_s
    <<~TEXT.gsub(/\n{3,}/, "\n\n")
      # Steady load

      Written by `bench/trickle`; run it to get your machine's. Blank jobs with distinct ids come one a call at a steady rate, in one
      run on one redis-server over loopback TCP: 5 threads, batch_size 1, every system with its defaults and every promise on.
      #{quick}

      #{@missing.texts.map { |text| "- **Missing here:** #{text}\n" }.join}
      ## Goals

      #{Text.table(%w[goal measured met], goal_rows)}
      #{plots.keys.map { |name| "![#{name[/-(\w+)/, 1]}](#{name})\n" }.join("\n")}
      #{Trickle::RATES.map { |rate| "## #{Text.thousands(rate)} jobs/s\n\n#{Text.table(COLUMNS, rows(rate))}\n" }.join}
      ## Without work

      #{Text.table(["", "Redis CPU, us a second", "Redis commands a second", "worker CPU, us a second"], idle_rows)}
      ## #{Trickle::BESIDE} jobs/s while a second queue drains a backlog

      #{Text.table(["", "p50, ms", "p99, ms", "p99.9, ms", "p99 without it, ms", "jobs/s of the second queue"], backlog_rows)}
      ## Every round: Redis CPU, us a job

      #{Text.table(["", *Array.new(Settings::ROUNDS) { |round| "round #{round + 1}" }], round_rows)}
      ## How

      #{method}
      ## Versions and machine

      #{Text.table(%w[what value], @facts.merge(Facts.last).map(&:itself))}
    TEXT
  end

  # @return [Hash{String=>String}] SVG by file name
  def plots
    @plots ||= { "trickle-redis.svg" => lines("What a job costs Redis", "Redis CPU, us a job", :redis_cpu),
                 "trickle-worker.svg" => lines("What a job costs its server", "worker CPU, us a job", :worker_cpu),
                 "trickle-latency.svg" => latency_plot }.compact
  end

  # @return [Figures]
  def summary
    Figures.new("Steady load: Redis CPU, us a job", ["", *Trickle::RATES.map { |rate| "#{Text.thousands(rate)} jobs/s" }],
                @trickle.contestants.map { |contestant| [contestant.title, *Trickle::RATES.map { |rate| number(contestant.name, rate, :redis_cpu, "%.0f") }] },
                notes: ["More in [trickle](trickle.md)."], goals: goals)
  end

  private

  FORMATS = { rate: "%.0f", redis_cpu: "%.1f", commands: "%.1f", worker_cpu: "%.0f", p50: "%.2f", p99: "%.2f", p999: "%.2f" }.freeze
  COLUMNS = ["", "jobs/s", "Redis CPU, us a job", "Redis commands a job", "worker CPU, us a job", "p50, ms", "p99, ms", "p99.9, ms",
             "Redis CPU, times Sidekiq's"].freeze
  private_constant :FORMATS, :COLUMNS

  def rows(rate)
    measured(rate).map do |contestant|
      name = contestant.name
      [contestant.title, *FORMATS.map { |field, format| number(name, rate, field, format) }, text(@trickle.ratio(name, PEER, rate, :redis_cpu), "%.2f")]
    end
  end

  def idle_rows
    measured(Trickle::IDLE).map do |contestant|
      [contestant.title, text(@trickle.idle(contestant.name, :redis_cpu) * 1e6, "%.0f"), text(@trickle.idle(contestant.name, :commands), "%.1f"),
       text(@trickle.idle(contestant.name, :worker_cpu) * 1e6, "%.0f")]
    end
  end

  def backlog_rows
    measured(:backlog).map do |contestant|
      name = contestant.name
      [contestant.title, *Trickle::SHARES.keys.map { |share| number(name, :backlog, share, "%.2f") }, number(name, Trickle::BESIDE, :p99, "%.2f"),
       Text.thousands(@trickle.backlog_rate(name))]
    end
  end

  def round_rows
    Trickle::RATES.product(@trickle.contestants).map do |rate, contestant|
      costs = @trickle.rounds(contestant.name, rate, :redis_cpu)
      ["#{contestant.title}, #{Text.thousands(rate)}/s", *Array.new(Settings::ROUNDS) { |round| text(costs[round], "%.1f") }]
    end
  end

  def measured(rate) = @trickle.contestants.select { |contestant| @trickle.measured?(contestant.name, rate) }
  def number(name, rate, field, format) = text(@trickle.figure(name, rate, field), format)
  def text(value, format) = value&.finite? ? format(format, value) : "-"

  def goal_rows = goals.map { |goal| Goals::Goal.new("#{goal[:text]}: at most #{goal[:limit]}", goal[:limit], "%.2f", goal[:measured]).row }

  # @return [Array<Hash>] as Figures takes them
  def goals
    @goals ||= [*Trickle::RATES.flat_map { |rate| goals_at(rate) },
                goal("#{Trickle::BESIDE} jobs/s beside a backlog, p99", 1.0, :backlog, :p99)]
  end

  def goals_at(rate)
    load = "#{Text.thousands(rate)} jobs/s"
    [goal("#{load}, Redis CPU a job", LIMITS.fetch(rate, 1.3), rate, :redis_cpu), goal("#{load}, worker CPU a job", 1.0, rate, :worker_cpu),
     goal("#{load}, push to perform, p50", 1.0, rate, :p50), goal("#{load}, push to perform, p99", 1.0, rate, :p99)]
  end

  def goal(text, limit, rate, field)
    ratio = @trickle.ratio(OURS, PEER, rate, field)
    { text: "#{text}: Ruby's, times Sidekiq's", limit: limit, measured: ratio&.clamp(-ENDLESS, ENDLESS)&.round(3) }
  end

  def lines(title, unit, field)
    points = @trickle.contestants.to_h do |contestant|
      [contestant.title, Trickle::RATES.filter_map { |rate| @trickle.figure(contestant.name, rate, field).then { |value| [rate, value.round] if value&.finite? } }]
    end
    points.select! { |_, line| line.size > 1 }
    LinePlot.new(title, "jobs a second", unit, points).to_s unless points.empty?
  end

  def latency_plot
    rows = measured(PLOTTED).filter_map do |contestant|
      values = Trickle::SHARES.keys.map { |share| @trickle.figure(contestant.name, PLOTTED, share) }
      [contestant.title, contestant.ours?, values, values.map { |ms| ms.round(ms < 10 ? 1 : 0) }.join(" / ")] if values.all?(&:finite?)
    end
    Plot.dots("From push to perform at #{PLOTTED} jobs a second", "milliseconds", rows, %w[p50 p99 p99.9]) unless rows.empty?
  end

  def quick
    "\n**A shorter run than the default (#{Settings::ROUNDS} rounds, #{Settings::SECONDS.round} s).**" if Settings::ROUNDS < 5 || Settings::SECONDS < 10
  end

  def method
    <<~TEXT
      - Medians of #{Settings::ROUNDS} rounds of #{format("%g", Settings::SECONDS)} s, in which the systems take turns at each rate; a ratio is the median of the ratios of each
        round. A new server and an empty Redis for each. What counts begins #{Spell::WARM} s after the first push.
      - Each system is pushed to in its own language (ours in C: in C) by one process up to #{Pace::PER_PUSHER.round} jobs/s, and by as many more as that takes
        above; each has one thread and waits for an answer before its next push.
      - The pushers follow a schedule, whatever the answers take. A job counts from its time of the schedule, also if its pusher was not free
        then because of earlier pushes; only the time by which a sleep of the pusher was too long is not counted. It ends when perform is called.
        Both ends read the same clock of the machine, the monotonic one (Lua: the system clock).
      - A job that was not performed #{Spell::DRAIN} s after the last push is late without end. A figure that this makes endless is "-".
      - Redis CPU: used_cpu_user and used_cpu_sys of INFO. Commands: those of commandstats, with those that scripts call. Worker CPU: what the
        threads of the server's processes ran, by /proc; the pushers' is not counted. From each goes what the same server costs without work in
        the same time, as measured in each round. jobs/s: those performed; less than the rate if the system or the pushers could not follow.
      - The backlog: jobs that take a millisecond (a sleep), more of them than can be run meanwhile. All five threads serve both queues.
        Ours run with `build_seq_scheduler`, under which shards take turns: under the built-in one a job waits for all that is older, here for
        the whole backlog. Sidekiq's queues have the same weight; BullMQ's worker of each has a concurrency of its own.
    TEXT
  end
end
