# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

# The generators and the command, in a minimal application of Rails with an SQLite database.
RSpec.describe "Outbox in Rails", limit: 240 do
  before(:all) { skip "Rails is not installed" unless Gem::Specification.find_all_by_name("railties").any? }
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { @command&.remove }

  def write(name, text) = File.join(@dir, name).tap { |path| FileUtils.mkdir_p(File.dirname(path)) && File.write(path, text) }

  def application(settings: "")
    write("config/environment.rb", <<~RUBY)
      require "logger"
      require "rails"
      require "active_record/railtie"
      require "seriatim"
      class TestApplication < Rails::Application
        config.root = #{@dir.inspect}
        config.load_defaults 6.1
        config.eager_load = false
        config.logger = Logger.new(nil)
        config.secret_key_base = "test"
        #{settings}
      end
      Rails.application.initialize!
      class Order < ActiveRecord::Base; end
      module OrderWorker
        extend Seriatim::Worker
        def self.perform(payloads_by_id) = payloads_by_id
      end
    RUBY
    write("config/database.yml", "development:\n  adapter: sqlite3\n  timeout: 60000\n  database: #{File.join(@dir, "app.sqlite3")}\n")
  end

  # Runs Ruby in the application.
  def ruby(code)
    text, status = Open3.capture2e({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url }, *Command::RUBY, "-r", File.join(@dir, "config/environment.rb"), "-e", code, chdir: @dir)
    status.success? ? text : raise(text)
  end

  it "R-OUTBOX-8: makes the tables and the column, and pushes what was committed until TERM" do
    application
    ruby(<<~RUBY)
      require "rails/generators"
      ActiveRecord::Base.connection.create_table(:orders) { |t| t.string :state }
      Rails::Generators.invoke("seriatim:outbox")
      Rails::Generators.invoke("seriatim:fence", ["Order"])
      ActiveRecord::MigrationContext.new("db/migrate", ActiveRecord::SchemaMigration).migrate
      Order.reset_column_information
      Order.transaction do
        order = Order.create!(state: "paid")
        Seriatim.fenced(order, 7) { |record| record.update!(state: "sent") }
        OrderWorker.perform_async_in_transaction([{ id: order.id, payload: { "state" => order.state } }])
      end
    RUBY
    expect(Dir.children(File.join(@dir, "db/migrate")).map { |name| name.sub(/\A\d+_/, "") }).to match_array(%w[create_seriatim_outbox.rb add_seriatim_fence_to_orders.rb])
    @command = Command.new("outbox", "-r", @dir, wait: false)
    @command.wait_for(/relay of the outbox/)
    queue = worker("OrderWorker")
    eventually { queue.metrics[:length] == 1 }
    expect(queue.queries.range_by_id("-", "+").first[:payloads].map(&:first)).to eq([{ "state" => "sent" }])
    @command.wait_for(/waiting=\d+ lag=/)
    expect(@command.stop).to eq(0)
  end

  it "R-OUTBOX-8: gives the tables the prefix and the suffix that the application has" do
    application(settings: 'config.active_record.table_name_prefix = "shop_"; config.active_record.table_name_suffix = "_v1"')
    said = ruby(<<~RUBY)
      require "rails/generators"
      Rails::Generators.invoke("seriatim:outbox")
      ActiveRecord::MigrationContext.new("db/migrate", ActiveRecord::SchemaMigration).migrate
      Order.transaction { OrderWorker.perform_async_in_transaction([{ id: 1 }]) }
      waited = Seriatim::Outbox.metrics[:waiting]
      Seriatim::Outbox::Relay.new.turn
      puts [ActiveRecord::Base.connection.tables.grep(/outbox/).sort, waited, Seriatim::Outbox.metrics[:waiting], OrderWorker.metrics[:length]].inspect
    RUBY
    expect(said.lines.last).to eq(%([["shop_seriatim_outbox_jobs_v1", "shop_seriatim_outboxes_v1"], 1, 0, 1]\n))
  end

  it "makes the queue of a worker that the application names and has not loaded" do
    application(settings: %(config.seriatim.workers = ["NamedWorker"]))
    write("app/jobs/named_worker.rb", "module NamedWorker; extend Seriatim::Worker; def self.perform(_) = nil; end")
    ruby(<<~RUBY)
      require "rails/generators"
      Rails::Generators.invoke("seriatim:outbox")
      ActiveRecord::MigrationContext.new("db/migrate", ActiveRecord::SchemaMigration).migrate
      Order.transaction { NamedWorker.perform_async_in_transaction([{ id: 1 }]) }
    RUBY
    @command = Command.new("outbox", "-r", @dir, wait: false)
    @command.wait_for(/relay of the outbox/)
    eventually { worker("NamedWorker").metrics[:length] == 1 }
    expect(@command.stop).to eq(0)
  end

  it "R-RAILS-2: loads the application in whose folder it runs, and logs as config/seriatim.yml says" do
    application
    write("config/seriatim.yml", "log_format: json\n")
    @command = Command.new("outbox", wait: false, dir: @dir)
    @command.wait_for(/"event":"outbox".*nothing is pushed, the next attempt is in .*seriatim_outbox/)
    expect(@command.stop).to eq(0)
  end

  it "is refused without an application, and in one without ActiveRecord's tables it waits for them" do
    expect(Command.run("outbox")).to eq(["seriatim: -r is missing: name the application's file or folder\n          see seriatim help\n", 2])
    application
    @command = Command.new("outbox", "-r", @dir, wait: false)
    @command.wait_for(/nothing is pushed, the next attempt is in .*seriatim_outbox/)
    expect(@command.stop).to eq(0)
  end
end
