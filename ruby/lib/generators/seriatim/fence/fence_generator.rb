# frozen_string_literal: true

require "rails/generators"
require "rails/generators/active_record"

module Seriatim
  module Generators
    # Writes the migration that adds the column of Seriatim.fenced to the table of a model.
    class FenceGenerator < ::Rails::Generators::NamedBase
      include ::ActiveRecord::Generators::Migration

      source_root File.expand_path("templates", __dir__)
      desc "Writes the migration that adds the column of Seriatim.fenced to the table of MODEL"

      def migration
        migration_template "add_seriatim_fence.rb.tt", "db/migrate/add_seriatim_fence_to_#{table_name}.rb"
      end
    end
  end
end
