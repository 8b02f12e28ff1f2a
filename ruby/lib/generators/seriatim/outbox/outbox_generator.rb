# frozen_string_literal: true

require "rails/generators"
require "rails/generators/active_record"

module Seriatim
  # Generators of Rails: `rails g seriatim:NAME`.
  module Generators
    # Writes the migration that makes the tables of the outbox.
    class OutboxGenerator < ::Rails::Generators::Base
      include ::ActiveRecord::Generators::Migration

      source_root File.expand_path("templates", __dir__)
      desc "Writes the migration for Seriatim's outbox"

      def migration
        migration_template "create_seriatim_outbox.rb.tt", "db/migrate/create_seriatim_outbox.rb"
      end
    end
  end
end
