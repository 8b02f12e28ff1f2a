# frozen_string_literal: true

require "seriatim/rails/configuration"

module Seriatim
  # What Rails needs: loaded by itself where Rails is.
  module Rails
    # A server middleware, outermost: runs each delivery inside the application's reloader, so that changed code is
    # loaded (in development) and connections go back to their pool.
    class Reloader
      # @param app [Rails::Application]
      def initialize(app)
        @app = app
      end

      def call(_worker, _batch, &block) = @app.reloader.wrap(&block)
    end

    # Before Rails sets config.active_job.queue_adapter, which needs the adapter's constant.
    ActiveSupport.on_load(:active_job) { require "active_job/queue_adapters/seriatim_adapter" }

    # Gives Seriatim the application's settings before the initializers of config/initializers, and its middleware once the
    # application is initialized.
    class Railtie < ::Rails::Railtie
      config.seriatim = ActiveSupport::OrderedOptions.new

      initializer("seriatim.settings", before: :load_config_initializers) { |app| Configuration.load(app) }
      # Again, because the file wins over what initializers assign.
      initializer("seriatim.file", after: :load_config_initializers) { ConfigFile.apply }

      config.after_initialize do |app|
        Configuration.load(app) # where Rails was loaded after Seriatim, the initializers above do not run
        Seriatim.server_middlewares.unshift(Reloader.new(app))
        Seriatim.reload_workers = !app.config.cache_classes
      end
    end
  end
end
