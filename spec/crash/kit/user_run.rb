# frozen_string_literal: true

require "optparse"
require_relative "freezes"
require_relative "kill_points"

# A user's own worker under the kit: its command is started again and again, killed at random, killed at named points, frozen;
# then the journal is judged. See README.md.
class UserRun
  DEFAULTS = { payload: '{"number": %d}', shards: 5, fold: "merge", ids: 40, workers: 3, kills: 60, steps: 5, freezes: 6, lease: 0.5,
               patience: 120,
               seed: Random.new_seed % 100_000 }.freeze

  def self.parse(arguments)
    options = DEFAULTS.dup
    OptionParser.new do |o|
      o.banner = "Usage: spec/crash/run --queue QUEUE [options] -- COMMAND..."
      o.on("--queue QUEUE", "the worker's queue") { |v| options[:queue] = v }
      o.on("--payload TEXT", "JSON; %d becomes the number (#{DEFAULTS[:payload]})") { |v| options[:payload] = v }
      { shards: "shards_count of the queue", ids: "ids that get jobs", workers: "processes at a time", kills: "random SIGKILLs",
        steps: "SIGKILLs at each of the eight points", freezes: "SIGSTOPs of three lease times",
        patience: "seconds until something must have run", seed: "plays a run again" }
        .each { |name, text| o.on("--#{name} N", Integer, "#{text} (#{DEFAULTS[name]})") { |v| options[name] = v } }
      o.on("--fold FOLD", "of the queue (merge)") { |v| options[:fold] = v }
      o.on("--lease SECONDS", Float, "lease_time, set by record (0.5)") { |v| options[:lease] = v }
    end.parse!(arguments)
    abort "--queue and a command are missing: see spec/crash/README.md" unless options[:queue] && arguments.any?
    new(arguments, options)
  end

  def initialize(command, options)
    @command = command
    @options = options
    @queue = options[:queue]
    @number = 0
  end

  # @return [Boolean] nothing is wrong
  def run
    puts "SEED=#{@options[:seed]}: --seed #{@options[:seed]} plays this again"
    @kit = Kit.new(seed: @options[:seed])
    @kit.queue(@queue, shards_count: @options[:shards], fold: @options[:fold], max_retry_count: 1_000_000)
    @kit.watch_leases
    pushing { storm }
    finish
    judge
  rescue RuntimeError => e
    puts e.message, "journal and logs are kept in #{@kit.keep}"
    false
  ensure
    @kit&.close
  end

  private

  def storm
    @workers = Array.new(@options[:workers]) { start }
    wait_for_runs(0, "no run was journaled: does the worker load record?")
    random_kills
    stepped_kills
    freezes
  end

  def start(url: @kit.redis.url, die: "")
    @kit.start(@command, { "REDIS_URL" => url, "JOURNAL" => @kit.journal.path, "DIE" => die, "CRASH_LEASE" => @options[:lease].to_s })
  end

  def random_kills
    killed = 0
    while killed < @options[:kills]
      before = @kit.journal.starts.size
      @workers.shuffle!(random: @kit.random)
      @workers.shift.kill
      @workers << start
      killed += 1
      sleep @kit.random.rand(0.3)
      wait_for_runs(before, "nothing runs any more:") if (killed % 10).zero?
    end
    puts "#{killed} random SIGKILLs"
  end

  def wait_for_runs(count, failure)
    @kit.eventually(@options[:patience], -> { "#{failure} #{@workers.last.log}" }) { @kit.journal.starts.size > count }
  end

  # One more worker joins the others, gets its share, and dies there.
  def stepped_kills
    proxy = Proxy.new(@kit.redis.socket)
    missed = KillPoints::POINTS.flat_map { |point| Array.new(@options[:steps]) { point } }.reject { |point| dies_at?(point, proxy) }
    puts "#{KillPoints::POINTS.size * @options[:steps] - missed.size} SIGKILLs at named points"
    puts "not reached: #{missed.tally}" if missed.any?
  ensure
    proxy&.stop
  end

  def dies_at?(point, proxy)
    script, moment = KillPoints::ON_THE_WIRE[point]
    nth = @kit.random.rand(1..2)
    proxy.rule = script && Proxy::Rule.new(step: Proxy::Step.new(script: script, moment: moment, nth: nth))
    victim = start(url: proxy.url, die: script ? "" : "#{point}:#{nth}")
    victim.end_within(20).tap { victim.kill }
  end

  def freezes
    puts "#{Freezes.new(@kit, @queue, @workers, lease: @options[:lease]).run(@options[:freezes])} freezes of three lease times"
  end

  # ---- jobs

  def pushing
    thread = Thread.new { push until @ending }
    thread.report_on_exception = false
    yield
  ensure
    @ending = true
    thread&.join
  end

  def push
    return sleep(0.05) if @kit[@queue].metrics[:length] > ids.size / 2

    @number += 1
    payload = JSON.parse(format(@options[:payload], @number))
    @kit[@queue].perform_async(ids.map { |id| { id: id, payload: payload, score: @number } })
    @kit.journal.pushed_to(@queue, ids, [@number])
    sleep 0.02
  end

  def ids = @ids ||= (1..@options[:ids]).map { |number| "crash-#{number}" }

  # ---- the end

  def finish
    @kit.drain(@options[:patience])
    @workers.each { |worker| worker.signal(:TERM) }
    @workers.each { |worker| worker.wait(100) }
  end

  def judge
    verdict = @kit.verdict
    puts "#{verdict.begun} runs, #{verdict.cut_short} deaths in a run, #{verdict.repeated.size} numbers that began again, " \
         "#{@kit.refused} settles refused"
    puts "#{verdict.lost.size} lost, #{verdict.reordered.size} out of order, #{verdict.concurrent.size} concurrent"
    findings = @kit.leftovers
    puts "left in Redis: #{findings.first(10)}" if findings.any?
    return true if verdict.faults.empty? && findings.empty?

    puts verdict.faults, "journal and logs are kept in #{@kit.keep}"
    false
  end
end

exit UserRun.parse(ARGV).run if $PROGRAM_NAME == __FILE__
