# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "site"
require_relative "../../support/redis_server"
require_relative "../../../ruby/spec/support/command"

# The dashboard as four hosts serve it, each three times: :open (the cookie "role" says who one is; without it an admin; programs may
# consume), :read_only and :token. All of them take "SECRET..." out of what they show, and answer no other Host than this machine.
module Mounts
  HERE = File.join(__dir__, "mounts")
  ROOT = File.expand_path("../../..", __dir__)
  RUBY_LIB = File.join(ROOT, "ruby/lib")
  TOKEN = "l\u00E4t me in"
  PATHS = { open: "/admin/jobs", read_only: "/read-only", token: "/token" }.freeze

  # Starts its processes in a folder; `site(:open)` is where the dashboard is.
  class Mount
    def initialize(redis)
      @redis = redis
      @folder = Dir.mktmpdir("seriatim-mount")
      @pids = []
      start
      PATHS.each_key { |kind| wait_for(site(kind)) }
    rescue StandardError
      close
      raise
    end

    def site(kind = :open) = Site.new("127.0.0.1", port(kind), path(kind))
    def token = TOKEN

    def close
      @pids.each { |pid| end_group(pid) }
      FileUtils.rm_rf(@folder)
    end

    private

    def port(_kind) = @port ||= RedisServer.free_port
    def path(kind) = PATHS.fetch(kind)

    def run(*command, **environment)
      neutral = { **Command::NEUTRAL, "LD_PRELOAD" => ENV["LD_PRELOAD"], "REDIS_URL" => @redis.url, "SERIATIM_REDIS_URL" => @redis.url }
      @pids << spawn({ **neutral, **environment.transform_keys(&:to_s) }, *command, out: log, err: %i[child out], in: File::NULL, pgroup: true, chdir: @folder)
    end

    def log = File.join(@folder, "log")

    def wait_for(site, seconds = 120)
      deadline = now + seconds
      until site.up?
        raise "#{self.class} does not start: #{Dir[File.join(@folder, "*log")].map { |path| File.read(path) }.join}" if now > deadline || @pids.any? { |pid| Process.wait(pid, Process::WNOHANG) }

        sleep 0.05
      end
    end

    def end_group(pid)
      Process.kill(:TERM, -pid)
      deadline = now + 10
      sleep 0.02 until (ended = Process.wait(pid, Process::WNOHANG)) || now > deadline
      Process.kill(:KILL, -pid)
      Process.wait(pid) unless ended
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Rack, in Puma.
  class Rack < Mount
    def start
      run("puma", "-q", "-t", "4:4", "-b", "tcp://127.0.0.1:#{port(:open)}", File.join(HERE, "config.ru"), RUBYLIB: RUBY_LIB)
    end
  end

  # WSGI, in gunicorn.
  class Wsgi < Mount
    def start
      run(ENV.fetch("PYTHON", "/usr/bin/python3"), "-m", "gunicorn", "-w", "1", "--threads", "4", "-b", "127.0.0.1:#{port(:open)}", "--chdir", HERE, "wsgi:application",
          PYTHONPATH: File.join(ROOT, "python"), PYTHONDONTWRITEBYTECODE: "1")
    end
  end

  # ASGI, in uvicorn, open only.
  class Asgi < Mount
    def start
      run(ENV.fetch("PYTHON", "/usr/bin/python3"), "-m", "uvicorn", "--port", port(:open).to_s, "--app-dir", HERE, "asgi:application",
          PYTHONPATH: File.join(ROOT, "python"), PYTHONDONTWRITEBYTECODE: "1")
    end

    private

    def path(_kind) = ""
  end

  # content_by_lua in nginx.
  class Nginx < Mount
    def start
      words = { lua: File.join(ROOT, "lua"), port: port(:open), redis: @redis.url, user: Process.uid.zero? ? "user root;" : "" }
      text = File.read(File.join(HERE, "nginx.conf")).gsub(/@(\w+)@/) { words.fetch($1.to_sym) }
      File.write(File.join(@folder, "nginx.conf"), text)
      run("nginx", "-p", @folder, "-c", "nginx.conf", "-e", "error.log")
    end
  end

  # The command, at its own root: a process for each kind.
  class Alone < Mount
    WORDS = { open: [], read_only: %w[--read-only], token: ["--token", TOKEN] }.freeze

    def start
      WORDS.each { |kind, words| run(RbConfig.ruby, "-I", RUBY_LIB, Command::EXE, "web", "--port", port(kind).to_s, "-r", File.join(HERE, "alone.rb"), *words) }
    end

    private

    def port(kind) = (@ports ||= Hash.new { |ports, name| ports[name] = RedisServer.free_port })[kind]
    def path(_kind) = ""
  end

  # The same command of the other languages, open to every visitor, who may consume.
  class AlonePython < Mount
    def start
      run(ENV.fetch("PYTHON", "/usr/bin/python3"), "-m", "seriatim", "web", "--consume", "--port", port(:open).to_s, PYTHONPATH: File.join(ROOT, "python"), PYTHONDONTWRITEBYTECODE: "1")
    end

    private

    def path(_kind) = ""
  end

  class AloneLua < Mount
    def start
      run("lua5.4", File.join(ROOT, "lua/bin/seriatim-lua"), "web", "--consume", "--port", port(:open).to_s,
          LUA_PATH: File.join(ROOT, "lua/?.lua;;"), LUA_CPATH: File.join(ROOT, "lua/lib/5.4/?.so;;"))
    end

    private

    def path(_kind) = ""
  end

  COMMANDS = { "Ruby" => Alone, "Python" => AlonePython, "Lua" => AloneLua }.freeze
  ALL = { "Rack" => Rack, "WSGI" => Wsgi, "nginx" => Nginx, "seriatim web" => Alone }.freeze
  WITHOUT_ROLES = { "Python's web" => AlonePython, "Lua's web" => AloneLua }.freeze
  CONSUMING = { **ALL, "ASGI" => Asgi, **WITHOUT_ROLES }.freeze
end
