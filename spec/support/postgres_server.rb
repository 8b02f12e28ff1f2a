# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"

# A private PostgreSQL on a Unix socket in a temporary folder, for tests. It does not run as root: root gives it to the user postgres.
class PostgresServer
  PROGRAMS = Dir["/usr/lib/postgresql/*/bin"].max_by { |path| path[/\d+/].to_i } || "/usr/bin"
  USER = "postgres"

  def self.installed? = File.executable?(File.join(PROGRAMS, "initdb"))

  def initialize
    @folder = Dir.mktmpdir("seriatim-postgres")
    FileUtils.chown(USER, nil, @folder) if Process.uid.zero?
    run("initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C")
    run("pg_ctl", "--pgdata", data, "--log", File.join(@folder, "log"), "--wait", "--timeout", "120", "start", "--options",
        "-c listen_addresses='' -c unix_socket_directories=#{@folder} -c fsync=off -c max_connections=40 -c shared_buffers=8MB")
    @owner = Process.pid
  end

  # As ActiveRecord takes it.
  # A test that leaves a lock behind makes the next one fail, not wait for ever.
  def config
    { adapter: "postgresql", host: @folder, username: USER, database: "postgres", pool: 5, variables: { lock_timeout: 60_000 } }
  end

  # Does nothing in a forked child, whose parent owns the process.
  def remove
    return unless @owner == Process.pid

    run("pg_ctl", "--pgdata", data, "--wait", "--mode", "immediate", "stop")
    FileUtils.rm_rf(@folder)
  end

  private

  def data = File.join(@folder, "data")

  # Without the sanitizers that LD_PRELOAD gives to the extension.
  def run(program, *arguments)
    user = Process.uid.zero? ? ["runuser", "-u", USER, "--"] : []
    log = File.join(Dir.tmpdir, "seriatim-postgres-#{Process.pid}.log")
    system({ "LD_PRELOAD" => nil }, *user, File.join(PROGRAMS, program), *arguments, chdir: @folder, %i[out err] => log) or
      raise "#{program} failed: #{File.read(log)}"
  ensure
    FileUtils.rm_f(log)
  end
end
