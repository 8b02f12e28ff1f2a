# frozen_string_literal: true

require_relative "contestant"

# Seriatim for Python beside Celery and RQ, both as Debian has them.
module FromPython
  PAGE = "python.md"
  COMMAND = "bench/python_benchmark"
  TITLE = "The Python benchmark"
  PEERS = { "celery" => "Celery", "rq" => "RQ" }.freeze
  DEFAULTS = "every system with its defaults (Celery without a result backend; RQ's SimpleWorker)"
  PYTHON = "/usr/bin/python3"
  POOLS = { "threads" => Contestant::THREADS, "prefork" => 2 }.freeze
  TRIAL = 5_000 # jobs
  NOTES = ["Celery: the faster of `-P threads -c #{POOLS["threads"]}` and `-P prefork -c #{POOLS["prefork"]}` in a trial before the first round. It has no\n  " \
           "call for many jobs: its enqueueing of 1,000 is 1,000 calls with one producer.",
           "RQ: SimpleWorker, its fastest, forks for no job; it has one thread."].freeze
  VERSIONS = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"

  module_function

  # @return [Boolean] it is there: Debian's packages celery and python3-rq are for the machine's owner to install
  def install(peer) = system(PYTHON, "-c", "import redis, #{peer}", err: File::NULL)

  def seriatim(redis, folder)
    contestant("seriatim", "Seriatim", redis, folder, ["#{Contestant::ROOT}/python"]) do |name|
      [PYTHON, "-m", "seriatim", "-c", Contestant::THREADS.to_s, "-r", app(name)]
    end
  end

  def peer(name, redis, folder) = public_send(name, redis, folder)

  def celery(redis, folder)
    pools = POOLS.map do |pool, processes|
      contestant("celery", "Celery (#{pool})", redis, folder) do |name|
        [PYTHON, "-m", "celery", "-A", "bench_#{name}", "worker", "-P", pool, "-c", processes.to_s, "-l", "WARNING"]
      end
    end
    pools.min_by { |contestant| contestant.process(TRIAL) }
  end

  def rq(redis, folder)
    contestant("rq", "RQ", redis, folder) do |_name|
      [PYTHON, "-m", "rq.cli", "worker", "-w", "rq.SimpleWorker", "-u", redis.url, "-q"]
    end
  end

  def contestant(name, title, redis, folder, path = [], &server)
    Contestant.new(name, title, redis, folder, server: server, script: ->(script) { [PYTHON, app(script)] },
                                               environment: { "PYTHONPATH" => [*path, Contestant::APPS].join(":") })
  end

  def facts
    packages = %w[celery kombu rq redis].to_h { |package| ["#{package} (Python)", version(package)] }
    { "python" => IO.popen([PYTHON, "-V"], &:read)[/\d\S*/], "seriatim" => ours, **packages.compact }
  end

  def version(package) = IO.popen([PYTHON, "-c", VERSIONS, package], err: File::NULL, &:read)[/\S+/]
  def ours = File.read("#{Contestant::ROOT}/python/seriatim/_version.py")[/"([\d.]+\S*)"/, 1]
  def app(name) = "#{Contestant::APPS}/bench_#{name}.py" # no module of ours may be called as one of theirs
end
