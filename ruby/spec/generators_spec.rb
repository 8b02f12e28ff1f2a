# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require "open3"

# One application of `rails new` for all examples, which run in their order: what a developer does, one after another.
RSpec.describe "Rails generators", :slow, order: :defined, limit: 240 do
  before(:all) do
    missing = %w[rails sqlite3 puma].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    skip "#{missing.join(" and ")} are not installed" unless missing.empty?

    @app = File.join(@folder = Dir.mktmpdir("seriatim-generators"), "shop")
    make_application
    shell("bin/rails", "generate", "seriatim:install")
    # Of one process, because each loads Rails: as `rails generate` and `rails destroy` with these words.
    generate(%w[seriatim:worker Order], %w[seriatim:worker billing/invoice_worker --test-framework=rspec], %w[seriatim:worker Gone], revoked: %w[seriatim:worker Gone])
  end
  after(:all) { @folder && FileUtils.rm_rf(@folder) }
  after { @command&.remove }

  SKIPPED = %w[bundle git javascript bootsnap spring listen action-cable action-text active-storage action-mailbox keeps system-test].freeze

  def make_application
    run_in(@folder, "rails", "new", "shop", "--quiet", *SKIPPED.map { |name| "--skip-#{name}" })
    tree = File.expand_path("../..", __dir__)
    write("Gemfile", <<~RUBY)
      gem "rails"
      gem "sqlite3"
      gem "puma"
      gem "seriatim", path: #{tree.inspect}
    RUBY
    write("db/schema.rb", "ActiveRecord::Schema.define(version: 0) {}\n")
    write("Procfile.dev", "web: bin/rails server\n")
    write("Procfile", "web: bin/rails server") # without an end of its line
  end

  # @return [String] its output
  def run_in(folder, *words, env: {})
    output, status = Open3.capture2e({ **environment, **env }, *words, chdir: folder)
    status.success? ? output : raise("#{words.join(" ")} ended with #{status.exitstatus}:\n#{output}")
  end

  def environment = { **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "BUNDLE_GEMFILE" => nil, "RUBYLIB" => nil, "RUBYOPT" => nil }
  def shell(*words, **options) = run_in(@app, *words, **options)
  def rails(program, **env) = shell("bin/rails", "runner", program, env: env.transform_keys(&:name))
  def write(name, text) = File.write(File.join(@app, name), text)
  def read(name) = File.read(File.join(@app, name))
  def exist?(name) = File.exist?(File.join(@app, name))

  def generate(*commands, revoked:)
    rails(<<~RUBY)
      Rails.application.load_generators
      #{commands.inspect}.each { |name, *words| Rails::Generators.invoke(name, words, behavior: :invoke, destination_root: Rails.root) }
      name, *words = #{revoked.inspect}
      Rails::Generators.invoke(name, words, behavior: :revoke, destination_root: Rails.root)
    RUBY
  end

  it "R-GEN-1: seriatim:install writes the settings, the initializer, the command, the route and the lines of processes" do
    expect(read("config/seriatim.yml")).to include('threads: <%= ENV.fetch("RAILS_MAX_THREADS", 5) %>', "namespace: shop-development")
    expect(exist?("config/initializers/seriatim.rb")).to be(true)
    expect(exist?("app/workers/.keep")).to be(true)
    expect(File.stat(File.join(@app, "bin/seriatim")).mode & 0o111).to eq(0o111)
    %w[Procfile Procfile.dev].each { |name| expect(read(name)).to eq("web: bin/rails server\njobs: bin/seriatim\n"), name }
    expect(read("config/puma.rb")).to include('plugin :seriatim if ENV["SERIATIM_IN_PUMA"]')
    expect(read("config/routes.rb")).to include('} => "/seriatim"')
  end

  it "R-GEN-2: seriatim:worker writes a worker and its test or spec, also in a namespace, and destroy takes them away" do
    expect(read("app/workers/order_worker.rb")).to start_with("module OrderWorker\n  extend Seriatim::Worker\n")
    expect(read("app/workers/billing/invoice_worker.rb")).to start_with("module Billing::InvoiceWorker\n")
    expect(read("spec/workers/billing/invoice_worker_spec.rb")).to include("RSpec.describe Billing::InvoiceWorker")
    expect([exist?("app/workers/gone_worker.rb"), exist?("test/workers/gone_worker_test.rb")]).to eq([false, false])
    expect(shell("bin/rails", "test", "test/workers/order_worker_test.rb", env: { "PARALLEL_WORKERS" => "1" })).to match(/1 runs, \d assertions, 0 failures, 0 errors/)
  end

  it "R-GEN-3: the application runs a job by bin/seriatim, and shows the dashboard to whom has the password" do
    said = rails(<<~'RUBY', SERIATIM_PASSWORD: "open sesame")
      OrderWorker.perform_async([{ id: 7, payload: { "status" => "paid" } }])
      [nil, "wrong", "open sesame"].each do |password|
        headers = password ? { "HTTP_AUTHORIZATION" => "Basic #{["admin:#{password}"].pack("m0")}" } : {}
        print Rack::MockRequest.new(Rails.application).get("/seriatim/api/v1/stats", { "HTTP_HOST" => "localhost", **headers }).status, " "
      end
      ENV.delete("SERIATIM_PASSWORD")
      print Rack::MockRequest.new(Rails.application).get("/seriatim/", "HTTP_HOST" => "localhost", "HTTP_AUTHORIZATION" => "Basic #{["admin:"].pack("m0")}").status
    RUBY
    expect(said).to eq("401 401 200 401")
    server = spawn(environment, "bin/seriatim", chdir: @app, out: File.join(@folder, "log"), err: %i[child out])
    eventually(120) { exist?("log/development.log") && read("log/development.log").include?('Order 7: [{"status"=>"paid"}]') }
    Process.kill(:TERM, server)
    expect(Process.wait2(server).last.exitstatus).to eq(0)
    expect(REDIS.call("EXISTS", "shop-development:{OrderWorker}:layout")).to eq("1")
  ensure
    puts File.read(File.join(@folder, "log")) if $! && server
  end

  it "R-GEN-4: destroy takes what install has written away" do
    shell("bin/rails", "destroy", "seriatim:install")
    written = %w[config/seriatim.yml config/initializers/seriatim.rb bin/seriatim app/workers/.keep]
    expect(written.select { |name| exist?(name) }).to eq([])
    expect(read("config/routes.rb") + read("config/puma.rb") + read("Procfile.dev") + read("Procfile")).not_to match(/seriatim/i)
  end
end
