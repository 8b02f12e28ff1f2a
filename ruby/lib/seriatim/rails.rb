# frozen_string_literal: true

require "seriatim/rails/configuration"
require "seriatim/rails/database"
require "seriatim/rails/delivery"
require "seriatim/rails/log"
require "seriatim/rails/new_workers"

module Seriatim
  # What Rails needs: loaded by itself where Rails is.
  module Rails
    # Before Rails sets config.active_job.queue_adapter, which needs the adapter's constant.
    ActiveSupport.on_load(:active_job) { require "active_job/queue_adapters/seriatim_adapter" }

    class << self
      # What is around runs, once the application is initialized.
      # @api private
      # @return [Reloader, nil]
      attr_accessor :reloader
    end

    # Gives Seriatim the application's settings before the initializers of config/initializers, and its middleware once the
    # application is initialized.
    class Railtie < ::Rails::Railtie
      config.seriatim = ActiveSupport::OrderedOptions.new

      initializer("seriatim.settings", before: :load_config_initializers) { |app| Configuration.load(app) }
      # Again, because the file wins over what initializers assign.
      initializer("seriatim.file", after: :load_config_initializers) { ConfigFile.apply }

      rake_tasks { load "seriatim/rails/tasks.rake" }

      config.after_initialize do |app|
        Configuration.load(app) # where Rails was loaded after Seriatim, the initializers above do not run
        Seriatim.server_middlewares.unshift(Rails.reloader = Reloader.new(app))
        Execution.around_exhausted = Rails.reloader.method(:around_exhausted)
        Server.checks << Database.method(:check_pool)
        look_for_new_workers(app) unless app.config.cache_classes || Seriatim.workers_set?
        Notifications.notifier = ActiveSupport::Notifications
        Seriatim.reload_workers = !app.config.cache_classes
      end

      def self.look_for_new_workers(app)
        new_workers = NewWorkers.new(app)
        Server.checks << ->(_threads) { new_workers.start }
      end
      private_class_method :look_for_new_workers
    end
  end
end
