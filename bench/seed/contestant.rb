# frozen_string_literal: true

# One system under test: pushes and servers of it are processes of their own.
class Contestant
  APPS = "#{__dir__}/apps"
  ROOT = File.expand_path("../..", __dir__)
  THREADS = 5
  PATIENCE = 120 # seconds for one measurement

  attr_reader :name, :title

  # @param script [Proc] the command that runs a program of APPS
  # @param server [Proc] the command that serves an app
  # @param app [String] the application, if it is not called as the system
  def initialize(name, title, redis, folder, script:, server:, environment: {}, app: name)
    @name = name
    @app = app
    @title = title
    @redis = redis
    @log = "#{folder}/#{name}.log"
    @result = "#{folder}/result"
    @environment = environment.merge("REDIS_URL" => redis.url, "BENCH_RESULT" => @result)
    @script = script
    @server = server
  end

  # Each answers the seconds that `count` jobs took.
  def single(count) = @redis.flush && push("single", count)
  def bulk(count) = @redis.flush && push("bulk", count)

  def process(count)
    @redis.flush
    push("fill", count)
    serve(@app, "BENCH_JOBS" => count.to_s) { result.to_f }
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
    server = Process.detach(start(environment, @server.call(app)))
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
  def run(script, environment = {}) = start(environment, @script.call(script))

  private

  def start(environment, command) = spawn(@environment.merge(environment), *command, out: @log, err: %i[child out])

  def push(mode, count)
    seconds = IO.popen(@environment, [*@script.call("push"), @app, mode, count.to_s], err: @log, &:read)
    seconds.empty? ? raise("#{name} could not push: #{File.read(@log)}") : seconds.lines.last.to_f
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
