# frozen_string_literal: true

require "seriatim/config_file"

module Seriatim
  # Loads what -r names: a file, a folder that holds config/environment.rb (Rails), or a library.
  # @api private
  module Application
    module_function

    OWN_FILES = ["/", ".rb"].map { |ending| "#{File.expand_path("..", __dir__)}#{ending}" }.freeze
    LIBRARIES = [*Gem.path, RbConfig::CONFIG["rubylibprefix"]].map { |folder| "#{folder}/" }.freeze # of gems and of Ruby
    private_constant :OWN_FILES, :LIBRARIES

    # @raise [UsageError] there is nothing to load
    # @raise [ApplicationError] the application has a syntax error or a setting that cannot be, or raised an error
    # @raise [Error] Redis failed while the application used it
    def load(path)
      own_logger = Seriatim.logger
      with_rails { placing_errors { Kernel.require(file(path) || path) } }
      share_log(own_logger)
      ConfigFile.apply # it wins over what the application sets
    rescue ApplicationError => e
      raise unless e.cause.is_a?(LoadError) && e.cause.path == path

      raise UsageError, "-r #{path}: no such file, and no folder with config/environment.rb"
    end

    # Then the workers, for those who look for one by its queue: one that is not loaded yet would not be known.
    # @raise as {load}
    def load_with_workers(path)
      load(path)
      eager_load
      load_named
    end

    # @raise [UsageError] Seriatim.workers names one that does not exist
    def load_named = placing_errors { Workers.load_named }

    # Where the application loaded Rails.
    def share_log(own_logger)
      return unless defined?(::Rails::Railtie)

      require "seriatim/rails"
      Seriatim::Rails.loaded_by_command(own_logger)
    end

    # The command was there before Rails. So what an application of Rails needs is loaded as soon as the block has loaded
    # Rails: it may name config.seriatim and the adapter of ActiveJob from then on.
    def with_rails(&block)
      railtie = TracePoint.new(:end) do |point|
        require "seriatim/rails" if defined?(::Rails::Railtie) && point.self.equal?(::Rails::Railtie)
      end
      railtie.enable(&block)
    end

    # Loads all of a Rails application's code when nobody named the workers, and ActiveJob in any case: its queues may be named, which
    # takes effect when it is loaded, and beside the workers there may be no job class that loads it.
    def eager_load
      placing_errors do
        ::ActiveJob.const_get(:Base) if defined?(::ActiveJob::Base)
        ::Rails.application.eager_load! unless Seriatim.workers_set? || !defined?(::Rails.application) || ::Rails.application.nil?
      end
    end

    # Raises what the application raises again as an ApplicationError, whose message begins with its place.
    def placing_errors
      yield
    rescue SyntaxError => e # its message begins with the place
      raise ApplicationError, e.message[/\A.*/].delete_suffix(" (SyntaxError)")
    rescue UsageError, Error # of a file of settings, which it names; of Redis
      raise
    rescue Invalid => e
      raise ApplicationError, "#{place_of(e)}#{e.message}"
    rescue NameError, LoadError => e # NoMethodError is a NameError
      raise ApplicationError, "#{place_of(e)}#{unknown_name(e)}"
    rescue StandardError, ScriptError, SystemStackError => e
      raise ApplicationError, "#{place_of(e)}#{e.class}: #{e.message}"
    end

    # @return [String] "file:line: ", the innermost line of the application; of a library where there is no other
    def place_of(error)
      calls = (error.backtrace_locations || []).take_while { |location| location.absolute_path != __FILE__ }
      calls.reject! { |location| location.absolute_path&.start_with?(*OWN_FILES) || location.path.start_with?("<internal:") }
      at = calls.find { |location| !location.absolute_path&.start_with?(*LIBRARIES) } || calls.first
      at ? "#{at.path}:#{at.lineno}: " : ""
    end

    # What does not exist, without the source text that Ruby shows below its message, and Ruby's first suggestion.
    def unknown_name(error)
      text = error.respond_to?(:detailed_message) ? error.detailed_message(highlight: false) : error.message
      meant = text[/^Did you mean\?\s+(.*)/, 1]
      what = unknown_setting(error) || text[/\A.*/].delete_suffix(" (#{error.class})")
      "#{what}#{" (did you mean #{what.include?(" setting ") ? meant.chomp("=") : meant}?)" if meant}"
    end

    # @return [String, nil] nil: the error is not of a setting or a method of ours
    def unknown_setting(error)
      return unless error.is_a?(NoMethodError) && (error.receiver.is_a?(Worker) || error.receiver.equal?(Seriatim))

      "#{error.receiver.inspect} has no #{error.name.end_with?("=") ? "setting" : "method"} #{error.name.to_s.chomp("=")}"
    end

    # @return [Boolean] the folder holds a Rails application
    def rails?(folder) = File.file?(File.join(folder, "config", "environment.rb"))

    def file(path)
      full = File.expand_path(path)
      return environment(path, full) if File.directory?(full)

      [full, "#{full}.rb"].find { |name| File.file?(name) }
    end

    def environment(path, full)
      name = File.join(full, "config", "environment.rb")
      File.file?(name) ? name : raise(UsageError, "-r #{path}: the folder holds no config/environment.rb")
    end
  end
  private_constant :Application
end
