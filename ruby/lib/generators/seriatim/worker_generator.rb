# frozen_string_literal: true

require "rails/generators/named_base"

module Seriatim
  module Generators
    # A worker in app/workers, and its test or spec: `rails generate seriatim:worker Order`, `... billing/invoice`.
    class WorkerGenerator < ::Rails::Generators::NamedBase
      source_root File.expand_path("templates", __dir__)
      desc "Makes a worker in app/workers, and its test or spec."
      check_class_collision suffix: "Worker"
      class_option :test_framework, type: :string, desc: "rspec or test_unit; default: the one that the application has configured"

      def create_worker = template("worker.rb", File.join("app/workers", class_path, "#{file_name}_worker.rb"))

      def create_test
        case test_framework.to_s
        when "rspec" then template("worker_spec.rb", File.join("spec/workers", class_path, "#{file_name}_worker_spec.rb"))
        when "test_unit" then template("worker_test.rb", File.join("test/workers", class_path, "#{file_name}_worker_test.rb"))
        end
      end

      private

      # `Order` and `OrderWorker` are the same worker.
      def file_name = @seriatim_file_name ||= super.delete_suffix("_worker")

      def test_framework = options[:test_framework] || ::Rails::Generators.options[:rails][:test_framework]
    end
  end
end
