# frozen_string_literal: true

require "fileutils"

module Seriatim
  # The private Redis, for development: started only if no URL is set, never in production. It lies in a data folder,
  # on a Unix socket, with its append-only file on; all processes that use the folder share it, and it ends with the
  # last of them. The folder is SERIATIM_DATA; or tmp/seriatim of the Rails application that this process has loaded or
  # was started in; or seriatim below XDG_DATA_HOME (~/.local/share).
  module PrivateRedis
    # Nothing names a Redis, and in production none is started. The command ends with exit code 3 then, as for a Redis that
    # cannot be reached.
    class Refused < UsageError
      def initialize = super("no Redis: set REDIS_URL or Seriatim.redis (in production Seriatim starts no private one)")
    end

    LOCK = Mutex.new
    private_constant :LOCK, :Refused

    module_function

    # Starts or joins it. This process' use of it is process-wide state.
    # @return [String] its URL
    # @raise [UsageError] in a production environment
    def url
      LOCK.synchronize do
        @redis ||= start(folder)
        @redis.url
      end
    end

    # @return [Boolean] this process uses it
    def used? = !@redis.nil?

    # Ends this process' use; the last one stops Redis.
    def release
      LOCK.synchronize do
        @redis&.release
        @redis = nil
      end
    end

    # @return [String]
    def folder
      given = ENV.fetch("SERIATIM_DATA", "")
      return File.expand_path(given) unless given.empty?
      return File.join(rails_root, "tmp", "seriatim") if rails_root

      home = ENV.fetch("XDG_DATA_HOME", "")
      File.join(home.empty? ? File.join(Dir.home, ".local", "share") : home, "seriatim")
    end

    # Most commands do not load the application, which takes seconds.
    # @return [String, nil]
    def rails_root
      return ::Rails.root.to_s if defined?(::Rails.root) && ::Rails.root

      Dir.pwd if File.file?("config/environment.rb")
    end
    private_class_method :rails_root

    # @return [String] the first that is set of SERIATIM_ENV, RAILS_ENV, RACK_ENV and APP_ENV, or "development"
    def environment
      %w[SERIATIM_ENV RAILS_ENV RACK_ENV APP_ENV].map { |name| ENV.fetch(name, "") }.find { |name| !name.empty? } || "development"
    end

    def start(folder)
      raise Refused if environment == "production"

      redis = Native::PrivateRedis.new(folder)
      Log.notice("redis", "#{redis.started? ? "started" : "joined"} the private Redis in #{folder}; set REDIS_URL to use another")
      redis
    end
    private_class_method :start
  end
end
