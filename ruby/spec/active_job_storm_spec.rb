# frozen_string_literal: true

require "time"
require_relative "spec_helper"
require_relative "support/command"

# Jobs of ActiveJob for a time, and servers in processes of their own. SOAK=1: the long forms.
RSpec.describe "ActiveJob for a time", limit: 1800 do
  before(:all) { skip "ActiveJob is not installed" unless Gem::Specification.find_all_by_name("activejob").any? }
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { (@commands || []).each(&:remove) }

  before do
    File.write(File.join(@dir, "app.rb"), <<~RUBY)
      require "active_job"
      require "active_job/queue_adapters/seriatim_adapter"
      ActiveJob::Base.logger = nil
      class TimedJob < ActiveJob::Base
        self.queue_adapter = :seriatim
        queue_as "timed"
        def perform(number, seconds)
          JOURNAL.syswrite("begin \#{number} \#{Time.now.to_f} \#{Process.pid}\\n")
          sleep(seconds)
          JOURNAL.syswrite("end \#{number} \#{Time.now.to_f} \#{Process.pid}\\n")
        end
      end
      JOURNAL = File.open(File.join(__dir__, "journal"), "a")
      Seriatim.lease_time = 4
    RUBY
    File.write(File.join(@dir, "push.rb"), <<~RUBY)
      require "seriatim"
      require_relative "app"
      count, at, seconds, spread = ARGV.map(&:to_f)
      count.to_i.times { |number| TimedJob.set(wait_until: Time.at(at + (number * spread / count))).perform_later(number, seconds) }
    RUBY
  end

  def soak? = !ENV["SOAK"].nil?

  # @param at [Float] Unix time at which the first of them is due
  # @param seconds [Float] how long each runs
  # @param spread [Float] seconds over which they become due
  def push(count, at, seconds = 0.0, spread = 0.0)
    output, status = Open3.capture2e({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url }, *Command::RUBY, File.join(@dir, "push.rb"), *[count, at, seconds, spread].map(&:to_s))
    status.success? or raise output
  end

  def start = Command.new("-r", File.join(@dir, "app.rb"), "-c", "5").tap { |command| (@commands ||= []) << command }

  # @return [Array<Array>] "begin" or "end", number, time, process
  def journal
    path = File.join(@dir, "journal")
    File.exist?(path) ? File.readlines(path).map { |line| line.split.then { |kind, number, time, pid| [kind, number.to_i, time.to_f, pid.to_i] } } : []
  end

  def of(kind) = journal.select { |line| line.first == kind }
  def ended = of("end").map { |line| line[1] }

  # @return [Hash{Integer => Integer}] how often each job has begun
  def begun = of("begin").map { |line| line[1] }.tally

  def until_ended(count) = eventually(600) { ended.uniq.size == count }

  def figure(text) = RSpec.configuration.reporter.message("  #{text}")

  it "R-DUE-7: runs a hundred jobs of the same time once each, also if the time is over when the first server starts" do
    overdue = soak? ? 60 : 2
    push(100, at = now + 1)
    sleep(1 + overdue)
    from = now
    start
    until_ended(100)
    expect(ended.tally.values.uniq).to eq([1])
    expect(of("begin").map { |line| line[2] }.min).to be > at + overdue
    figure format("100 jobs, %d s overdue: the last one ended %.2f s after the server was started, %.2f s after it ran", overdue,
                  of("end").map { |line| line[2] }.max - from, of("end").map { |line| line[2] }.max - started)
  end

  # When the server said that it runs.
  def started = Time.parse(@commands.first.log[/^\S+ (\S+Z) .* start node/, 1]).to_f

  it "R-JOB-4: loses no job while all processes are killed, and runs again only what ran then" do
    count, processes, spread = soak? ? [1000, 3, 60.0] : [200, 2, 8.0]
    push(count, at = now + 3, 0.05, spread)
    living = Array.new(processes) { start }
    sleep([at - now, 0].max)
    kills = 0
    while now < at + spread
      seen = ended.size
      sleep(0.01) until ended.size > seen || now >= at + spread
      living.each { |command| Process.kill(:KILL, command.pid) }
      living.each(&:remove)
      living = Array.new(processes) { start }
      kills += 1
    end
    eventually(600) { Command.run("queues", "--json").first[/"length":0,.*"busy":0,/] }
    again = begun.select { |_, times| times > 1 }
    expect(again.sum { |_, times| times - 1 }).to be <= kills * processes * 5 * 2 # threads; what ended just before counts, too
    # A job that was claimed each time may be what kills them: then it lies in the morgue until somebody retries it.
    suspects = (0...count).to_a - ended
    Command.run("dead", "retry", "timed", "--all")
    until_ended(count)
    figure "#{count} jobs, #{kills} times #{processes} processes killed: #{again.sum { |_, times| times - 1 }} runs were repeated, #{suspects.size} were taken for the cause"
  end

  it "R-JOB-4: runs each job of one second once in several processes" do
    count, processes = soak? ? [10_000, 5] : [500, 3]
    processes.times { start }
    push(count, at = now + (soak? ? 20 : 3))
    until_ended(count)
    sleep(0.5)
    expect(of("begin").map { |line| line[1] }.tally.values.uniq).to eq([1])
    lines = of("begin")
    expect(lines.map(&:last).uniq.size).to eq(processes)
    expect(lines.map { |line| line[2] }.min).to be >= at - 0.001
    figure format("%d jobs of one second in %d processes: each once, the last one began %.2f s after its time", count, processes, lines.map { |line| line[2] }.max - at)
  end
end
