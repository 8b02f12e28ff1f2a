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
  def application(initializer: "", settings: "")
    write("config/environment.rb", <<~RUBY)
      require "logger"
      require "rails"
      require "action_controller" if Rails::VERSION::MAJOR > 6 # whose eager loading needs it
      require "seriatim"
      class TestApplication < Rails::Application
        config.root = #{@dir.inspect}
        config.load_defaults 6.1
        config.eager_load = Rails.env.production?
        config.cache_classes = Rails.env.production?
        config.logger = Logger.new(nil)
        config.secret_key_base = "test"
        config.file_watcher = ActiveSupport::FileUpdateChecker
        #{settings}
      end
      Seriatim.lease_time = 10
      Seriatim.poll_interval = 0.2
      #{initializer}
      Rails.application.initialize!
    RUBY
    job("first")
  end

  def job(word, name: "RailsWorker")
    write("app/jobs/#{name.gsub(/(?<!\A)[A-Z]/, '_\0').downcase}.rb", <<~RUBY)
      module #{name}
        extend Seriatim::Worker
        def self.perform(payloads_by_id)
          File.open(ENV.fetch("TRACE"), "a") { |f| f.puts("#{word} \#{payloads_by_id.inspect} \#{Rails.env}") }
        end
      end
    RUBY
  end

  def start(*arguments) = start_in(Dir.pwd, "-r", @dir, *arguments)

  def start_in(dir, *arguments, env: {})
    server = Command.new(*arguments, env: { "TRACE" => trace_path, **env }, dir: dir)
    (@commands ||= []) << server
    server
  end

  it "R-RAILS-9: boots from its folder, finds the workers, and runs changed code and new workers without a new start" do
    application
    server = start
    queue.perform_async([{ id: 1 }])
    eventually { trace.include?('first {"1"=>[""]} development') }
    sleep 1.1 # the watcher compares whole seconds
    job("second")
    queue.perform_async([{ id: 2 }])
    eventually { trace.include?('second {"2"=>[""]} development') }
    job("third", name: "NewRailsWorker")
    worker("NewRailsWorker").perform_async([{ id: 3 }])
    eventually { trace.include?('third {"3"=>[""]} development') }
    expect(server.stop).to eq(0)
  end

  ["", 'Seriatim.workers = ["CodedWorker"]'].each do |initializer|
    it "pushes by command in the codec of a worker that is not loaded yet, #{initializer.empty? ? "found in its folder" : "by name"}" do
      application(initializer: initializer)
      write("app/jobs/coded_worker.rb", "module CodedWorker; extend Seriatim::Worker; self.codec = :marshal; self.shards_count = 3; end")
      expect(Command.run("push", "CodedWorker", "1", "[1]", "-r", @dir)).to match([/added 1/, 0])
      coded = worker("CodedWorker", codec: :marshal, shards_count: 3)
      expect([coded.queue.shards_count, coded.queries.fetch([1]).first[:payloads].map(&:first)]).to eq([3, [[1]]])
    end
  end

  it "boots in production, with workers by name" do
    application(initializer: 'Seriatim.workers = ["RailsWorker"]')
    server = start("-e", "production", "-p", "2")
    queue.perform_async([{ id: 1 }])
    eventually { trace.include?('first {"1"=>[""]} production') }
    expect(server.stop).to eq(0)
  end

  it "R-JOB-8: runs the named queues of ActiveJob beside workers by name, without a class that is loaded" do
    application(initializer: 'Seriatim.workers = ["RailsWorker"]', settings: "require 'active_job/railtie'\n  config.seriatim.active_job_queues = %w[orders]")
    server = start
    server.wait_for(/runs RailsWorker, orders on/)
    expect(server.stop).to eq(0)
  end

  it "boots from one file that loads Rails, and reads config.seriatim and the adapter of ActiveJob" do
    write("app.rb", <<~RUBY)
      require "logger"
      require "rails"
      require "action_controller" if Rails::VERSION::MAJOR > 6
      require "active_job/railtie"
      require "seriatim"
      class OneFile < Rails::Application
        config.root = #{@dir.inspect}
        config.load_defaults 6.1
        config.eager_load = false
        config.logger = Logger.new(nil)
        config.secret_key_base = "test"
        config.active_job.queue_adapter = :seriatim
        config.seriatim.lease_time = 3
      end
      Rails.application.initialize!
      class OneFileJob < ActiveJob::Base
        queue_as :one_file
      end
      module RailsWorker
        extend Seriatim::Worker
        def self.perform(payloads_by_id) = File.write(ENV.fetch("TRACE"), "lease \#{Seriatim.lease_time}")
      end
    RUBY
    server = start_in(@dir, "-r", "./app.rb")
    server.wait_for(/runs RailsWorker, one_file/)
    queue.perform_async([{ id: 1 }])
    eventually { trace == "lease 3" }
    expect(server.stop).to eq(0)
  end

  it "R-RAILS-6: warns of no database pool without a limit" do
    skip "ActiveRecord is not installed" unless Gem::Specification.find_all_by_name("activerecord").any?
    require "rails"
    require "active_record"
    require "seriatim/rails"
    allow(ActiveRecord::Base).to receive(:connection_pool).and_return(Struct.new(:size).new(nil))
    Seriatim::Rails.module_eval { const_get(:Database) }.check_pool(1000)
    expect(@log.string).to eq("")
  end

  it "wraps each delivery in the application's reloader" do
    require "rails"
    wrapped = []
    application = Struct.new(:reloader).new(Class.new { define_singleton_method(:wrap) { |**, &block| (wrapped << 1) && block.call } })
    require "seriatim/rails"
    Seriatim.server_middlewares = [Seriatim::Rails::Reloader.new(application)]
    recorder = worker("Wrapped")
    recorder.perform_async([{ id: 1 }])
    serve(recorder)
    runs(recorder)
    expect(wrapped).to eq([1])
  end

  # What Rails is to a run and to retries_exhausted, with Rails.error, which came with Rails 7.0.
  def with_rails_error
    require "rails"
    require "seriatim/rails"
    reports = Thread::Queue.new
    reporter = Object.new
    reporter.define_singleton_method(:set_context) { |**fields| Thread.current[:reported] = fields.values_at(:ids, :retry_count) }
    reporter.define_singleton_method(:report) do |error, handled:, context: nil, **|
      reports << [error.class, handled, *(context&.values_at(:ids, :retry_count) || Thread.current[:reported])]
    end
    allow(Rails).to receive(:error).and_return(reporter)
    application = Struct.new(:reloader).new(Class.new { def self.wrap(**) = yield })
    yield Seriatim::Rails::Reloader.new(application), reports
  end

  it "R-RAILS-5: gives errors that are no StandardError to Rails.error, but not what ends the process" do
    with_rails_error do |reloader, reports|
      Seriatim.server_middlewares = [reloader]
      work = worker("Missing", max_retry_count: 0, batch_size: 1) do |payloads, _|
        raise({ "1" => NotImplementedError, "2" => SystemExit, "3" => Interrupt }.fetch(payloads.keys.first), "no")
      end
      %w[1 2 3].each { |id| work.perform_async([{ id: id }]) }
      serve(work)
      runs(work, 3)
      drained(work)
      expect { reloader.around_exhausted(work, [["4", 1, 0]]) { raise LoadError, "no" } }.to raise_error(LoadError)
      expect(Array.new(reports.size) { reports.pop }).to eq([[NotImplementedError, false, ["1"], -1], [LoadError, false, ["4"], 0]])
    end
  end

  # Runs a job of ActiveJob whose perform is this block. @return [Array<Array>] what was reported, each as `with_rails_error` has it
  def reports_of_active_job(name, *middlewares, &perform)
    skip "ActiveJob is not installed" unless Gem::Specification.find_all_by_name("activejob").any?
    require "active_job/queue_adapters/seriatim_adapter"
    ActiveJob::Base.logger = Logger.new(nil)
    job = stub_const("ReportedJob", Class.new(ActiveJob::Base) do
      self.queue_adapter = :seriatim
      queue_as name
      ordered_by { "a" }
      define_method(:perform, &perform)
    end)
    with_rails_error do |reloader, reports|
      Seriatim.server_middlewares = [Seriatim::Rails.reloader = reloader, *middlewares]
      job.perform_later
      work = Seriatim::ActiveJob.queue(name)
      serve(work)
      drained(work)
      return Array.new(reports.size) { reports.pop }
    end
  ensure
    Seriatim::Rails.reloader = nil if Seriatim.const_defined?(:Rails, false)
  end

  it "R-RAILS-5: gives an error of a job of ActiveJob to Rails.error once" do
    [NotImplementedError, IOError].each do |error|
      expect(reports_of_active_job("raises_#{error}") { raise error }).to eq([[error, false, ["a"], -1]])
    end
  end

  it "R-RAILS-5: gives an error of a server middleware and of a subscriber around jobs of ActiveJob to Rails.error once" do
    before = ->(_, _) { raise IOError, "no" }
    after = lambda do |_, _, &block|
      block.call
      raise IOError, "no"
    end
    expect(reports_of_active_job("before", before) { nil }).to eq([[IOError, false, ["a"], -1]])
    expect(reports_of_active_job("after", after) { nil }).to eq([[IOError, false, ["a"], -1]])
    expect(reports_of_active_job("exits", ->(_, _) { raise SystemExit }) { nil }).to eq([])
    allow(Seriatim.module_eval { const_get(:Notifications) }).to receive(:instrument).with("perform", anything).and_raise(IOError)
    expect(reports_of_active_job("subscriber") { nil }).to eq([[IOError, false, ["a"], -1]])
  end

  it "R-RAILS-6: gives each process a database connection of its own" do
    skip "ActiveRecord with sqlite3 is not installed" unless %w[activerecord sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }

    application(initializer: <<~RUBY)
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: #{File.join(@dir, "db").inspect})
      parents = ActiveRecord::Base.connection.raw_connection
      Seriatim.server_middlewares << lambda do |_, _, &block|
        ActiveRecord::Base.connection.select_value("select 1") == 1 && !ActiveRecord::Base.connection.raw_connection.equal?(parents) && block.call
      end
    RUBY
    server = start("-p", "2")
    queue.perform_async(Array.new(10) { |i| { id: i } })
    eventually { trace.lines.size == 10 }
    expect(server.stop).to eq(0)
  end

  # What the application's console sees of the settings.
  def settings(*names, env: {})
    program = "require './config/environment'; puts #{names.inspect}.map { |name| Seriatim.public_send(name).inspect }.join(' ')"
    Open3.capture2e({ **Command::NEUTRAL, **env }, *Command::RUBY, "-e", program, chdir: @dir).first
  end

  it "R-RAILS-11: has tasks for rake, with the settings of the application" do
    application(settings: "config.seriatim.namespace = 'tasks'")
    write("Rakefile", "require_relative 'config/environment'\nRails.application.load_tasks\n")
    Seriatim.namespace = "tasks"
    queue.perform_async([{ id: 1 }])
    rake = lambda do |*tasks|
      env = { **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "RUBYOPT" => Command::RUBY.drop(1).join(" ") }
      Open3.capture2e(env, RbConfig.ruby, "-S", "rake", *tasks, chdir: @dir).then { |output, status| [output, status.exitstatus] }
    end
    expect(rake.call("seriatim:queues")).to match([/^RailsWorker .* 1 /, 0])
    expect(rake.call("seriatim:check[RailsWorker]", "seriatim:nodes")).to match([/RailsWorker.*/m, 0])
    expect(rake.call("seriatim:check[None]")).to match([/unknown queue "None"/, 2])
  end

  describe "config/seriatim.yml" do
    before { application(settings: "config.seriatim.lease_time = 3\n  config.seriatim.namespace = 'code'\n  config.logger = Logger.new(ENV['TO'] ? $stdout : '#{@dir}/app.log')") }

    it "R-RAILS-1: sets the settings of Seriatim, by environment, with ERB; it wins over config.seriatim and over initializers" do
      write("config/initializers/seriatim.rb", "$seen = Seriatim.namespace\nSeriatim.poll_interval = 7")
      write("config/seriatim.yml", <<~YAML)
        default: &default
          threads: 2
        namespace: shop-<%= Rails.env %>
        poll_interval: 0.5
        development:
          <<: *default
          timeout: 9
        production:
          threads: 20
      YAML
      names = %i[namespace poll_interval lease_time threads_per_node stop_timeout]
      expect(settings(*names)).to eq(%("shop-development" 0.5 3 2 9\n))
      expect(settings(*names, env: { "RAILS_ENV" => "production" })).to eq(%("shop-production" 0.5 3 20 25\n))
      expect(settings(:namespace, env: { "RAILS_ENV" => "staging" })).to eq(%("shop-staging"\n))
    end

    it "R-RAILS-1: leaves to the environment what it says" do
      write("config/seriatim.yml", "redis: redis://file:1\nthreads: 2\n")
      shown = %i[redis redis_url threads_per_node]
      expect(settings(*shown)).to eq(%("redis://file:1" "redis://file:1" 2\n))
      expect(settings(*shown, env: { "REDIS_URL" => "redis://env:2", "RAILS_MAX_THREADS" => "8" })).to eq(%(nil "redis://env:2" 5\n))
    end

    it "R-RAILS-1: names the file and the key of what is wrong, and config.seriatim" do
      file = File.join(File.realpath(@dir), "config/seriatim.yml")
      { "therads: 2" => "unknown key therads; known are require, threads, ", "lease_time: 0" => "lease_time must be a number of seconds from 0.2",
        "development: {threads: many}" => 'threads must be an integer, not "many"', "redis: 5" => "redis must be a text, not 5",
        "workers: OrderWorker" => "workers must be a list of texts", "namespace: ''" => "namespace must be a text of 1 to 128 bytes" }.each do |text, said|
        write("config/seriatim.yml", text)
        expect(settings(:namespace)).to include("#{file}: #{said}"), text
      end
      expect(Command.run(dir: @dir)).to match([/\Aseriatim: #{Regexp.escape(file)}: namespace must be a text/, 2])
      FileUtils.rm(file)
      application(settings: "config.seriatim.lease_tme = 3")
      expect(settings(:namespace)).to include(": config.seriatim has no setting lease_tme; known are active_job_queues, ")
      application(settings: "config.seriatim.lease_time = 0")
      expect(settings(:namespace)).to include(": config.seriatim.lease_time must be a number of seconds")
    end

    it "R-RAILS-2, R-RAILS-4: is that of the command in the application's folder; the command line and another file win over it" do
      write("config/seriatim.yml", "namespace: yaml\nthreads: 2\nprocesses: 2\nqueues: [RailsWorker]\nverbose: true\nproduction: {namespace: <%= 'live' %>}\n")
      Seriatim.namespace = "yaml"
      server = start_in(@dir)
      server.wait_for(/process 2 of 2 has pid/)
      server.wait_for(/node \S+ with 2 threads runs RailsWorker/)
      eventually { File.read(File.join(@dir, "app.log")).match?(/INFO -- : start node \S+ with 2 threads runs RailsWorker/) }
      queue.perform_async([{ id: 1 }])
      eventually { trace.include?('first {"1"=>[""]} development') }
      expect(Command.run("queues", dir: @dir)).to match([/^RailsWorker /, 0])
      expect(Command.run("queues", "-e", "production", dir: @dir).first).not_to include("RailsWorker")
      expect(server.stop).to eq(0)
      write("other.yml", "namespace: other\nthreads: 3\n")
      server = start_in(@dir, "-C", "other.yml", "-p", "1")
      expect(server.log).to match(/node \S+ with 3 threads runs RailsWorker/)
      expect(server.stop).to eq(0)
      server = start_in(@dir, "-c", "1", "-p", "1", env: { "TO" => "stdout" })
      expect(server.log.scan(/ start node \S+ with 1 threads runs RailsWorker/).size).to eq(1)
      expect(server.stop).to eq(0)
    end
  end
end
