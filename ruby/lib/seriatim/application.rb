# frozen_string_literal: true

module Seriatim
  # Loads what -r names: a file, a folder that holds config/environment.rb (Rails), or a library.
  # @api private
  module Application
    module_function

    # @raise [UsageError] there is nothing to load
    def load(path)
      Kernel.require(file(path) || path)
      require "seriatim/rails" if defined?(::Rails::Railtie) # the command was there before Rails
    rescue LoadError => e
      raise unless e.path == path

      raise UsageError, "-r #{path}: no such file, and no folder with config/environment.rb"
    end

    # Loads all of a Rails application's code when nobody named the workers.
    def eager_load
      return if Seriatim.workers_set? || !defined?(::Rails.application) || ::Rails.application.nil?

      ::Rails.application.eager_load!
    end

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
