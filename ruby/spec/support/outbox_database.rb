# frozen_string_literal: true

require "active_record"
require "erb"
require_relative "../../../spec/support/postgres_server"

# A database with the tables of the outbox and two of an application, on PostgreSQL or SQLite.
module OutboxDatabase
  TEMPLATE = File.expand_path("../../lib/generators/seriatim/outbox/templates/create_seriatim_outbox.rb.tt", __dir__)
  ADAPTERS = %w[PostgreSQL SQLite].freeze

  class << self
    # @return [Hash] as ActiveRecord takes it, after the tables were made
    def open(adapter, folder)
      config = adapter == "SQLite" ? sqlite(folder) : postgres.config
      ActiveRecord::Base.establish_connection(config)
      ActiveRecord::Base.connection.execute("PRAGMA journal_mode=WAL") if adapter == "SQLite"
      make_tables
      forget_the_database_before
      config
    end

    def postgres
      @postgres ||= PostgresServer.new.tap { |server| RSpec.configuration.after(:suite) { server.remove } }
    end

    private

    def sqlite(folder) = { adapter: "sqlite3", database: File.join(folder, "app.sqlite3"), timeout: 60_000, pool: 5 }

    # Classes keep statements and the types of columns, which differ between the two.
    def forget_the_database_before
      [Order, Entry, Seriatim::Outbox::Row, Seriatim::Outbox::Counter].each do |model|
        model.reset_column_information
        model.initialize_find_by_cache
      end
    end

    # The migration that `rails g seriatim:outbox` writes, and an order with its state.
    def make_tables
      ActiveRecord::Migration.verbose = false
      Object.class_eval(ERB.new(File.read(TEMPLATE)).result) unless defined?(CreateSeriatimOutbox)
      ActiveRecord::Schema.define do
        %i[seriatim_outbox_jobs seriatim_outboxes entries orders].each { |name| drop_table(name, if_exists: true) }
        create_table :orders do |t|
          t.string :state
          t.integer :entries, null: false, default: 0
          t.bigint :seriatim_fence
        end
        create_table :entries do |t|
          t.integer :order_id
          t.integer :place
          t.string :token
        end
      end
      CreateSeriatimOutbox.new.change
    end
  end

  # A record of the application; `entries` counts its entries, in the order of the commits.
  class Order < ActiveRecord::Base
    self.table_name = "orders"
  end

  # What was committed: `token` is the payload of the job of the same transaction.
  class Entry < ActiveRecord::Base
    self.table_name = "entries"
  end
end
