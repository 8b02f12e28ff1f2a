# frozen_string_literal: true

require_relative "contestant"

# Seriatim for Python, and Celery and RQ as Debian has them.
module FromPython
  PYTHON = "/usr/bin/python3"
  POOLS = { "threads" => Contestant::THREADS, "prefork" => 2 }.freeze
  TRIAL = 2_000 # jobs
  VERSIONS = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"

  module_function

  def names = %w[python celery rq]

  # @return [Boolean] it is there: Debian's packages celery and python3-rq are for the machine's owner to install
  def install(name) = name == "python" || system(PYTHON, "-c", "import redis, #{name}", err: File::NULL)

  def contestant(name, redis, folder) = public_send(name, redis, folder)

  def python(redis, folder)
    serve = [PYTHON, "-m", "seriatim", "-c", Contestant::THREADS.to_s, "-r"]
    build("python", "Seriatim, Python", redis, folder, app: "seriatim", path: ["#{Contestant::ROOT}/python"], ours: true,
          serve: [*serve, file("seriatim")], note: [*serve, file("seriatim_latency")], both: [*serve, file("seriatim_backlog")])
  end

  # The faster of its pools.
  def celery(redis, folder)
    pools = POOLS.map do |pool, processes|
      serve = ->(app) { [PYTHON, "-m", "celery", "-A", app, "worker", "-P", pool, "-c", processes.to_s, "-l", "WARNING"] }
      build("celery", "Celery (#{pool})", redis, folder, serve: serve["bench_celery"], note: serve["bench_celery_latency"],
            both: [*serve["bench_celery_backlog"], "-Q", "celery,backlog"])
    end
    pools.min_by { |contestant| contestant.process(TRIAL).seconds }
  end

  def rq(redis, folder)
    serve = [PYTHON, "-m", "rq.cli", "worker", "-w", "rq.SimpleWorker", "-u", redis.url, "-q"]
    build("rq", "RQ", redis, folder, serve: serve, note: serve)
  end

  def build(name, title, redis, folder, serve:, note:, both: nil, app: name, path: [], ours: false)
    Contestant.new(name, title, redis, folder, ours: ours, also: ours ? Contestant::FEW : [], environment: { "PYTHONPATH" => [*path, Contestant::APPS].join(":") },
                   commands: { push: [PYTHON, file("push"), app], pace: [PYTHON, file("pace"), app], serve: serve, note: note,
                               both: both, fill: both && [PYTHON, file("push"), "#{app}_backlog", "fill"] }.compact)
  end

  def facts
    packages = %w[celery kombu rq redis].to_h { |package| ["#{package} (Python)", version(package)] }
    { "python" => IO.popen([PYTHON, "-V"], &:read)[/\d\S*/], **packages.compact }
  end

  def version(package) = IO.popen([PYTHON, "-c", VERSIONS, package], err: File::NULL, &:read)[/\S+/]
  def file(name) = "#{Contestant::APPS}/bench_#{name}.py" # no module of ours may be called as one of theirs
end
