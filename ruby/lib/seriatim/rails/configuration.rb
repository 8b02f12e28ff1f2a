# frozen_string_literal: true

require "seriatim/config_file"
require "seriatim/rails/log"

module Seriatim
  module Rails
    # Reads config.seriatim and config/seriatim.yml into the settings of Seriatim.
    # @api private
    module Configuration
      NAMES = [*Settings.instance_methods(false).grep(/\A[a-z]\w*=\z/).map { |name| name.name.delete_suffix("=").to_sym } - [:reload_workers],
               :active_job_queues].sort.freeze
      private_constant :NAMES

      module_function

      # Once for each application. A file of -C takes the place of the application's own.
      # @param app [::Rails::Application]
      # @raise [UsageError] names the file or config.seriatim, the key and the rule
      def load(app)
        return if @app.equal?(app)

        @app = app
        LogTarget.use_application
        refuse_unknown(app.config.seriatim.keys)
        app.config.seriatim.each { |name, value| set(name, value) }
        path = app.root.join(ConfigFile::OF_RAILS).to_s
        ConfigFile.use(path, ::Rails.env, called: path) if !ConfigFile.used? && File.file?(path)
        ConfigFile.apply
      end

      def refuse_unknown(names)
        unknown = names - NAMES
        raise UsageError, "config.seriatim has no setting #{unknown.first}; known are #{NAMES.join(", ")}" unless unknown.empty?
      end

      def set(name, value)
        ConfigFile.set(name, value)
      rescue Invalid => e
        raise UsageError, "config.seriatim.#{e.message}"
      end
      private_class_method :refuse_unknown, :set
    end
    private_constant :Configuration
  end
end
