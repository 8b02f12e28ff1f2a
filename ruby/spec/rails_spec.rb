# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "Rails", limit: 240 do
  before(:all) { skip "Rails is not installed" unless Gem::Specification.find_all_by_name("railties").any? }
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { (@commands || []).each(&:remove) }

  def write(name, text) = File.join(@dir, name).tap { |path| FileUtils.mkdir_p(File.dirname(path)) && File.write(path, text) }
  def trace = File.exist?(trace_path) ? File.read(trace_path) : ""
  def trace_path = File.join(@dir, "trace")
  def queue = @queue ||= worker("RailsWorker")

  # A minimal application: reloading in development, eager loading in production.
  def application(initializer: "")
    write("config/environment.rb", <<~RUBY)
      require "logger"
      require "rails"
      require "seriatim"
      class TestApplication < Rails::Application
        config.root = #{@dir.inspect}
        config.load_defaults 6.1
        config.eager_load = Rails.env.production?
        config.cache_classes = Rails.env.production?
        config.logger = Logger.new(nil)
        config.secret_key_base = "test"
        config.file_watcher = ActiveSupport::FileUpdateChecker
      end
      Seriatim.lease_time = 3
      Seriatim.poll_interval = 0.2
      #{initializer}
      Rails.application.initialize!
    RUBY
    job("first")
  end

  def job(word)
    write("app/jobs/rails_worker.rb", <<~RUBY)
      module RailsWorker
        extend Seriatim::Worker
        def self.perform(payloads_by_id)
          File.open(ENV.fetch("TRACE"), "a") { |f| f.puts("#{word} \#{payloads_by_id.inspect} \#{Rails.env}") }
        end
      end
    RUBY
  end

  def start(*arguments)
    server = Command.new("-r", @dir, *arguments, env: { "TRACE" => trace_path })
    (@commands ||= []) << server
    server
  end

  it "boots from its folder, finds the workers, and runs changed code without a new start" do
    application
    server = start
    queue.perform_async([{ id: 1 }])
    eventually { trace.include?('first {"1"=>[""]} development') }
    sleep 1.1 # the watcher compares whole seconds
    job("second")
    queue.perform_async([{ id: 2 }])
    eventually { trace.include?('second {"2"=>[""]} development') }
    expect(server.stop).to eq(0)
  end

  it "boots in production, with workers by name" do
    application(initializer: 'Seriatim.workers = ["RailsWorker"]')
    server = start("-e", "production", "-p", "2")
    queue.perform_async([{ id: 1 }])
    eventually { trace.include?('first {"1"=>[""]} production') }
    expect(server.stop).to eq(0)
  end

  it "wraps each delivery in the application's reloader" do
    require "rails"
    wrapped = []
    application = Struct.new(:reloader).new(Class.new { define_singleton_method(:wrap) { |&block| (wrapped << 1) && block.call } })
    require "seriatim/rails"
    Seriatim.server_middlewares = [Seriatim::Rails::Reloader.new(application)]
    recorder = worker("Wrapped")
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    runs(recorder)
    expect(wrapped).to eq([1])
  end

  it "gives each process a database connection of its own" do
    skip "ActiveRecord with sqlite3 is not installed" unless %w[activerecord sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }

    application(initializer: <<~RUBY)
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: #{File.join(@dir, "db").inspect})
      Seriatim.on_server_init = -> { ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: #{File.join(@dir, "db").inspect}) }
      Seriatim.server_middlewares << lambda do |_, _, &block|
        ActiveRecord::Base.connection.select_value("select 1") == 1 && block.call
      end
    RUBY
    server = start("-p", "2")
    queue.perform_async(Array.new(10) { |i| { id: i } })
    eventually { trace.lines.size == 10 }
    expect(server.stop).to eq(0)
  end
end
