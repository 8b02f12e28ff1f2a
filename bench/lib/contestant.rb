# frozen_string_literal: true

require_relative "processes"

# One system under test: pushes and servers of it are processes of their own.
class Contestant
  ROOT = File.expand_path("../..", __dir__)
  APPS = "#{ROOT}/bench/apps"
  THREADS = 5
  PATIENCE = 300 # seconds for one measurement
  FEW = %i[together pipelined].freeze # the disciplines that not all systems have

  # What processing took: seconds, and a job's share of Redis' CPU (us) and commands; memory: peak bytes of the processes.
  Processing = Struct.new(:seconds, :redis_cpu, :commands, :memory)

  attr_reader :name, :title

  # @param commands [Hash{Symbol=>Array<String>}] push (MODE and COUNT are added), serve; where it can: note (the server of latency)
  #   and pace (its pusher), both (that server with a second queue) and fill (of that queue; COUNT is added), idle
  # @param clock [Integer] which its pusher and its server read
  # @param ours [Boolean] it is Seriatim
  # @param only [Symbol, nil] the one discipline that it takes part in
  # @param also [Array<Symbol>] what it does besides the disciplines of all: together, pipelined
  def initialize(name, title, redis, folder, commands:, environment: {}, ours: false, only: nil, also: [], clock: Process::CLOCK_MONOTONIC)
    @name = name
    @title = title
    @redis = redis
    @log = "#{folder}/#{name}.log" # one of each command, whose name is added
    @result = "#{folder}/result"
    @commands = commands
    @environment = environment.merge("REDIS_URL" => redis.url, "BENCH_RESULT" => @result, "BENCH_THREADS" => THREADS.to_s)
    @ours = ours
    @only = only
    @also = also
    @clock = clock
  end

  def ours? = @ours
  def takes_part?(what) = @only ? @only == what : !FEW.include?(what) || @also.include?(what)
  def can?(what) = @commands.key?(what)

  # Each answers the seconds that `count` jobs took; `together` and `pipelined` push from several threads.
  def single(count) = @redis.flush && push("single", count)
  def together(count) = @redis.flush && push("together", count)
  def pipelined(count) = @redis.flush && push("pipelined", count)
  def bulk(count) = @redis.flush && push("bulk", count)

  # @return [Processing]
  def process(count)
    @redis.flush
    push("fill", count)
    cpu = @redis.cpu_seconds
    calls = @redis.calls
    serve(:serve, "BENCH_JOBS" => count.to_s) do |pid|
      seconds = result.to_f
      Processing.new(seconds, (@redis.cpu_seconds - cpu) * 1e6 / count, (@redis.calls - calls) / count.to_f, Processes.peak_memory(pid))
    end
  end

  # Gives the second queue of the server `both` jobs.
  def fill(count)
    pid = spawn(@environment, *@commands.fetch(:fill), count.to_s, out: "#{@log}.fill", err: %i[child out])
    Process.wait(pid)
    raise "could not push: #{last_words}" unless $?.success?
  end

  # By its own clock.
  def now = Process.clock_gettime(@clock)

  # What the jobs of the server `note` or `both` have noted, when it has ended.
  # @return [Array<Array(Float, Float)>] when each was performed, and what it counts from
  def notes
    paths = Dir["#{@result}.notes*"]
    raise "nothing was noted: #{last_words}" if paths.empty?

    paths.flat_map { |path| File.readlines(path).map { |line| line.split.map(&:to_f) } }
  end

  # Bytes of Redis memory a waiting job.
  def memory(count)
    @redis.flush
    before = @redis.used_memory
    push("wait", count)
    (@redis.used_memory - before) / count.to_f
  end

  # Runs a server while the block runs.
  def serve(command, environment = {})
    Dir["#{@result}*"].each { |path| File.delete(path) }
    @server = Process.detach(run(command, environment))
    yield @server.pid
  ensure
    stop(@server) if @server
  end

  # What the server reports at its end.
  def result
    deadline = monotonic + PATIENCE
    until File.exist?(@result)
      raise "no result: #{last_words}" if monotonic > deadline || !@server.alive?

      sleep 0.01
    end
    File.read(@result)
  end

  # Runs a command to its end.
  def finish(command, environment = {})
    Process.wait(run(command, environment))
    raise "#{command} failed: #{last_words}" unless $?.success?
  end

  # @return [Integer] the process' id
  def run(command, environment = {})
    spawn(@environment.merge(environment), *@commands.fetch(command), out: "#{@log}.#{command}", err: %i[child out])
  end

  private

  def push(mode, count)
    seconds = IO.popen(@environment, [*@commands.fetch(:push), mode, count.to_s], err: "#{@log}.push", &:read)
    seconds.empty? ? raise("could not push: #{last_words}") : seconds.lines.last.to_f
  end

  def stop(server)
    Process.kill(:TERM, server.pid) if server.alive?
    server.join(30) || Process.kill(:KILL, server.pid)
  end

  # Of all its processes, without the frames of a backtrace.
  def last_words
    lines = Dir["#{@log}.*"].flat_map { |path| File.readlines(path) }
    lines.map(&:strip).reject { |line| line.empty? || line.start_with?("from ", "File ", "at ") }.uniq.last(3).join("; ")
  end

  def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
