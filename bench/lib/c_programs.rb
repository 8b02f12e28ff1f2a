# frozen_string_literal: true

require "tmpdir"

# The programs of bench/c on one Redis.
class CPrograms
  SOURCES = File.expand_path("../c", __dir__)
  FOLDER = File.expand_path("../../tmp/bench/c", __dir__)

  # @param core [String, nil] the core of another tree; nil: this tree's, which alone the program ceiling is built against
  def self.build(folder = FOLDER, core = nil)
    system("#{SOURCES}/build", folder, *core) || raise("bench/c could not be built")
  end

  def initialize(redis)
    @redis = redis
  end

  # @return [Float] the seconds that pushing `count` jobs took
  def push(mode, count, environment = {}) = run("push", mode, count, environment: environment).to_f

  # @return [String] what it printed, or what the block made of its output
  def run(name, *arguments, environment: {}, &block)
    output = IO.popen(surroundings(environment), ["#{FOLDER}/#{name}", *arguments.map(&:to_s)], &block || :read)
    $?.success? ? output : raise("#{name} #{arguments.join(" ")} failed")
  end

  # @return [Float] the seconds in which a worker processed `count` jobs
  def process(count)
    Dir.mktmpdir("seriatim-result-") do |folder|
      result = "#{folder}/seconds"
      serve("BENCH_JOBS" => count, "BENCH_RESULT" => result) { |pid| wait_for(result, pid) }
      Float(File.read(result))
    end
  end

  # Runs a worker while the block runs.
  def serve(environment = {})
    worker = Process.detach(spawn(surroundings(environment), "#{FOLDER}/worker"))
    yield worker.pid
  ensure
    Process.kill(:TERM, worker.pid) if worker.alive?
    worker.join(30) || Process.kill(:KILL, worker.pid)
  end

  private

  def wait_for(path, pid)
    until File.exist?(path)
      Process.kill(0, pid)
      sleep 0.002
    end
  end

  def surroundings(environment) = { "REDIS_URL" => @redis.url }.merge(environment.transform_values(&:to_s))
end
