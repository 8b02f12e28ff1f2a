# frozen_string_literal: true

require_relative "peers"

# One system under test: pushes and servers of it are processes of their own.
class Contestant
  APPS = "#{__dir__}/apps"
  OURS = ["-I", "#{Peers::ROOT}/ruby/lib"].freeze
  THREADS = 5
  PATIENCE = 120 # seconds for one measurement

  def self.seriatim(redis, folder)
    new("seriatim", redis, folder, {}, OURS, ["#{Peers::ROOT}/ruby/exe/seriatim", "-c", THREADS.to_s])
  end

  def self.lowkiq(redis, folder)
    new("lowkiq", redis, folder, Peers::ENVIRONMENT, [], ["#{Peers::FOLDER}/bin/lowkiq"])
  end

  def self.sidekiq(redis, folder)
    new("sidekiq", redis, folder, Peers::ENVIRONMENT, [], ["#{Peers::FOLDER}/bin/sidekiq", "-c", THREADS.to_s])
  end

  attr_reader :name

  def initialize(name, redis, folder, environment, options, command)
    @name = name
    @redis = redis
    @log = "#{folder}/#{name}.log"
    @result = "#{folder}/result"
    @environment = environment.merge("REDIS_URL" => redis.url, "BENCH_RESULT" => @result)
    @options = options
    @command = command
  end

  # Each answers the seconds that `count` jobs took.
  def single(count) = @redis.flush && push("single", count)
  def bulk(count) = @redis.flush && push("bulk", count)

  def process(count)
    @redis.flush
    push("fill", count)
    serve(name, "BENCH_JOBS" => count.to_s) { result.to_f }
  end

  # Bytes of Redis memory a waiting job.
  def memory(count)
    @redis.flush
    before = @redis.used_memory
    push("wait", count)
    (@redis.used_memory - before) / count.to_f
  end

  # Runs a server of the app while the block runs.
  def serve(app, environment = {})
    File.delete(@result) if File.exist?(@result)
    server = Process.detach(run(environment, *@command, "-r", "#{APPS}/#{app}.rb"))
    yield server.pid
  ensure
    Process.kill(:TERM, server.pid) if server.alive?
    server.join(30) || Process.kill(:KILL, server.pid)
  end

  # What the server reports at its end.
  def result
    deadline = now + PATIENCE
    until File.exist?(@result)
      raise "#{name} did not finish: #{File.read(@log).lines.last(5).join}" if now > deadline

      sleep 0.01
    end
    File.read(@result)
  end

  # @return [Integer] the process' id
  def run(environment, *arguments)
    spawn(@environment.merge(environment), "ruby", *@options, *arguments, out: @log, err: %i[child out])
  end

  private

  def push(mode, count)
    command = ["ruby", *@options, "#{APPS}/push.rb", name, mode, count.to_s]
    seconds = IO.popen(@environment, command, err: @log, &:read)
    seconds.empty? ? raise("#{name} could not push: #{File.read(@log)}") : seconds.lines.last.to_f
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
