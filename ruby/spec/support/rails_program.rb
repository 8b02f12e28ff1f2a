# frozen_string_literal: true

require "json"
require "open3"
require "tmpdir"
require_relative "command"

# Programs in a small Rails application, each in a process of its own.
module RailsProgram
  # A program has `worker`, `run`, `log` and `answer`, whose argument is the program's answer.
  APPLICATION = <<~'RUBY'
    require "logger"
    require "json"
    require "rails"
    require "active_record/railtie" if ENV["DATABASE"]
    require "seriatim"
    LOG = File.join(__dir__, "rails.log")
    class ProgramApplication < Rails::Application
      config.root = __dir__
      config.load_defaults 6.1
      config.eager_load = false
      config.cache_classes = true
      config.logger = ActiveSupport::TaggedLogging.new(Logger.new(LOG))
      config.secret_key_base = "test"
      config.seriatim.poll_interval = 0.2
    end
    ENV["DATABASE_URL"] = "sqlite3:#{File.join(__dir__, "program.sqlite3")}?timeout=20000" if ENV["DATABASE"]
    Rails.application.initialize!

    def log = File.read(LOG)
    def answer(value) = File.write(File.join(__dir__, "answer"), JSON.generate(value))

    def worker(name, **settings, &perform)
      Object.const_set(name, Module.new).tap do |worker|
        worker.extend(Seriatim::Worker)
        settings.each { |key, value| worker.public_send(:"#{key}=", value) }
        worker.define_singleton_method(:perform) { |payloads_by_id, batch| perform.call(payloads_by_id, batch) }
      end
    end

    # Runs the workers until the block gives something true.
    def run(*workers)
      server = Seriatim::Server.new(workers: workers).start
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 120
      sleep 0.02 until yield || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      server.stop
    end
  RUBY

  module_function

  # @return [String, nil] why programs cannot run here
  def skip_reason
    missing = %w[railties activerecord sqlite3].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    "#{missing.join(" and ")} are not installed" unless missing.empty?
  end

  def at_least?(version) = Gem::Specification.find_all_by_name("railties").map(&:version).max >= Gem::Version.new(version)

  # @param database [Boolean] with ActiveRecord, on SQLite
  # @return what the program gave to `answer`, from JSON
  def answer(program, database: false)
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "application.rb"), APPLICATION)
      File.write(File.join(dir, "program.rb"), "require_relative 'application'\n#{program}")
      env = { **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "DATABASE" => ("1" if database) }
      said, = Open3.capture2e(env, *Command::RUBY, "program.rb", chdir: dir)
      path = File.join(dir, "answer")
      File.file?(path) ? JSON.parse(File.read(path)) : raise("the program ended without an answer:\n#{said}")
    end
  end
end
