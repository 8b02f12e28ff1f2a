# frozen_string_literal: true

module Seriatim
  # What Rails needs of a server: loaded by itself where Rails is.
  #
  # A server forked from a loaded application (`-p`) must not share its parent's database connections; with
  # ActiveRecord:
  #
  #   Seriatim.on_server_init = -> { ActiveRecord::Base.establish_connection }
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

    # Adds the middleware once the application is initialized.
    class Railtie < ::Rails::Railtie
      config.after_initialize do |app|
        Seriatim.server_middlewares.unshift(Reloader.new(app))
        Seriatim.reload_workers = !app.config.cache_classes
      end
    end
  end
end
