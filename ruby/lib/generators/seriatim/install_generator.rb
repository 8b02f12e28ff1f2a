# frozen_string_literal: true

require "rails/generators/base"

module Seriatim
  # `rails generate seriatim:...`
  module Generators
    # What an application needs to run workers and to show the dashboard. `rails destroy seriatim:install` takes it away.
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Adds config/seriatim.yml, an initializer, bin/seriatim, app/workers and the dashboard's route."

      PROCFILES = %w[Procfile Procfile.dev].freeze
      LINE = "jobs: bin/seriatim\n"
      PLUGIN = %(\n# Runs the workers beside the web server, in a process of their own.\nplugin :seriatim if ENV["SERIATIM_IN_PUMA"]\n)
      private_constant :PROCFILES, :LINE, :PLUGIN

      def create_files
        template "seriatim.yml", "config/seriatim.yml"
        template "initializer.rb", "config/initializers/seriatim.rb"
        template "command.rb", "bin/seriatim"
        chmod "bin/seriatim", 0o755, verbose: false if behavior == :invoke
        create_file "app/workers/.keep", ""
      end

      # A constraint or the sign-in of the application may take the place of HTTP Basic.
      def mount_dashboard = route(File.read(find_in_source_paths("routes.rb")))

      def add_processes
        PROCFILES.each { |name| append_to_file(name, "#{"\n" if unended?(name)}#{LINE}") if written?(name) }
        append_to_file("config/puma.rb", PLUGIN) if written?("config/puma.rb")
      end

      private

      def written?(name) = File.exist?(File.join(destination_root, name))

      # Has the file a last line without an end?
      def unended?(name) = File.read(File.join(destination_root, name)).match?(/[^\n]\z/)

      # In front of "development" of the namespace.
      def application_name = ::Rails.application.class.module_parent_name.underscore
    end
  end
end
