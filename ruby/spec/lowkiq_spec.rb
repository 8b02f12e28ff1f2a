# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require "seriatim/lowkiq"

RSpec.describe "seriatim/lowkiq", limit: 240 do
  # Clients of the gem redis, as far as they are read: options of 4, a configuration of 5, a cluster of 5.
  Client4 = Struct.new(:options) do
    def _client = self
    def close = (@closed = true)
    def closed? = @closed
  end
  Config5 = Struct.new(:host, :port, :path, :db, :username, :password, :ssl_params, :ssl, keyword_init: true) { alias_method :ssl?, :ssl }
  Client5 = Struct.new(:config) { def _client = self }
  Opened = Struct.new(:_client)

  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }

  after do
    Lowkiq.instance_variables.each { |name| Lowkiq.remove_instance_variable(name) }
    @server&.remove
  end

  def lowkiq_worker(name = "OldWorker", &perform)
    Module.new do
      extend Lowkiq::Worker
      self.queue_name = name
      define_singleton_method(:perform) { |batch| perform.call(batch) }
    end
  end

  def url_of(client)
    Lowkiq.redis = -> { client }
    Seriatim.redis_url
  end

  def refused(message, &call) = expect(&call).to raise_error(Seriatim::Invalid, message)

  APPLICATION = <<~RUBY
    require "seriatim/lowkiq" # the one changed line
    require "lowkiq"
    module OldWorker
      extend Lowkiq::Worker
      self.shards_count = 2
      self.batch_size = 3
      self.max_retry_count = 1
      def self.retry_in(_count) = 0.05
      def self.perform(payloads_by_id)
        payloads_by_id.each { |id, payloads| TRACE.puts "run \#{id} \#{payloads.inspect}" }
        raise "boom" if payloads_by_id.key?("fails")
      end
      def self.retries_exhausted(batch) = batch.each { |job| TRACE.puts "dead \#{job[:id]} \#{job[:payloads].map(&:first)} \#{job[:error]}" }
    end
    TRACE = File.open(ENV.fetch("TRACE"), "a").tap { |file| file.sync = true }
    Lowkiq.workers = [OldWorker]
    Lowkiq.poll_interval = 5
    Lowkiq.threads_per_node = 2
    Lowkiq.format_error = ->(error) { "E:" + error.message }
    Lowkiq.server_middlewares << ->(worker, batch, &block) { TRACE.puts("in \#{worker} \#{batch}") && nil; block.call }
    Lowkiq.client_middlewares << ->(_worker, batch, &block) { batch.each { |job| job[:score] ||= 1 } && block.call }
    Lowkiq.on_server_init = -> { TRACE.puts "init" }
    Lowkiq.build_scheduler = -> { Lowkiq.build_seq_scheduler }
    Lowkiq.build_splitter = -> { ->(handlers) { handlers.group_by { |h| [h.queue_name, h.shard_index] }.values } }
    OldWorker.perform_async([{ id: 1, payload: { num: 1, at: Time.at(0).utc } }, { id: 1, payload: :second, score: 2, note: "unknown" }, { id: "fails" }])
  RUBY

  it "R-LOWKIQ-1: an application written for Lowkiq runs with its require line changed" do
    path, trace = %w[app.rb trace].map { |name| File.join(@dir, name) }
    File.write(path, APPLICATION)
    @server = Command.new("-r", path, env: { "TRACE" => trace })
    eventually { File.exist?(trace) && File.read(trace).include?("dead") }
    expect(@server.stop).to eq(0)
    lines = File.readlines(trace, chomp: true)
    expect(lines).to include("init", 'run 1 [{:num=>1, :at=>1970-01-01 00:00:00 UTC}, :second]', 'in OldWorker {"fails"=>[""]}', 'dead fails [""] E:boom')
    expect(lines.grep(/\Arun fails/).size).to eq(2)
    expect(@server.log.scan("Lowkiq.poll_interval = 5 has no effect").size).to eq(1)
  end

  it "R-LOWKIQ-2: payloads of Lowkiq workers are Marshal, unless the application names its own codec; those of other workers stay JSON" do
    got = Thread::Queue.new
    old = lowkiq_worker { |batch| got << batch }
    old.perform_async([{ id: 1.5, payload: { sym: [Time.at(1), 2**80] } }])
    serve(old)
    expect(got.pop).to eq("1.5" => [{ sym: [Time.at(1), 2**80] }])
    expect(worker("New").payload_codec).not_to eq(old.payload_codec)
    refused(/jobs\[0\]\.payload: no _dump_data is defined for class Proc/) { old.perform_async([{ id: 1, payload: -> {} }]) }

    Lowkiq.dump_payload = ->(payload) { "<#{payload}>" }
    Lowkiq.load_payload = ->(bytes) { bytes[1..-2] }
    old.perform_async([{ id: 2, payload: "own" }])
    expect(got.pop).to eq("2" => ["own"])
    old.codec = :json
    old.perform_async([{ id: 3, payload: { a: 1 } }])
    expect(got.pop).to eq("3" => [{ "a" => 1 }])
    refused(/Lowkiq\.load_payload must be callable, not 5/) { Lowkiq.load_payload = 5 }
    refused(/codec must be one of json, raw, marshal/) { old.codec = :yaml }
  end

  it "R-LOWKIQ-2: the subclasses of a Lowkiq worker are workers with its codec, and a class that includes it is refused" do
    parent = Class.new { extend Lowkiq::Worker }
    stub_const("OldOrders", Class.new(parent))
    OldOrders.perform_async([{ id: 1, payload: :sent }])
    expect(Seriatim.pop("OldOrders", wait: 0).payloads).to eq([:sent])
    refused(/ includes Lowkiq::Worker; write `extend Lowkiq::Worker` and/) { Class.new.include(Lowkiq::Worker) }
  end

  it "R-LOWKIQ-3: of a client of the gem redis its URL is taken, and the client is closed" do
    client = Client4.new({ scheme: "rediss", ssl: true, host: "h", port: 7000, db: 3, username: "u", password: "p@/" })
    expect(url_of(client)).to eq("rediss://u:p%40%2F@h:7000/3")
    expect(client).to be_closed
    expect(url_of(Client4.new({ scheme: "unix", path: "/tmp/x", db: 2 }))).to eq("unix:///tmp/x?db=2")
    expect(url_of(Client4.new({ scheme: "redis", host: "::1", port: 1, db: 0, password: "", sentinels: nil }))).to eq("redis://[::1]:1/0")
    expect(url_of(Opened.new(Client5.new(Config5.new(host: "h", port: 1, db: 0, username: "default", password: "x", ssl: true))))).to eq("rediss://default:x@h:1/0")
    expect(url_of("redis://plain:1/2")).to eq("redis://plain:1/2")
  end

  it "R-LOWKIQ-3: Seriatim's keys lie below the namespace of a client that is a Redis::Namespace" do
    namespaced = Struct.new(:namespace, :_client)
    plain = Client4.new({ scheme: "redis", host: "h", port: 1, db: 9 })
    own = Seriatim.namespace
    2.times { expect([url_of(namespaced.new(:shop, plain)), Seriatim.namespace]).to eq(["redis://h:1/9", "shop:#{own}"]) }
    refused(/namespace of the client must be a text, not a Proc/) { url_of(namespaced.new(-> { "shop" }, plain)) }
  end

  it "R-LOWKIQ-3: what a URL cannot say is refused" do
    refused(/cannot take its sentinels; name the Sentinels in a URL/) { url_of(Client4.new({ sentinels: [{ host: "a" }] })) }
    refused(/cannot take its ssl_params; name the file of certificates by the variable SSL_CERT_FILE/) { url_of(Client4.new({ ssl_params: { ca_file: "x" } })) }
    refused(/cannot take its cluster; it works with one Redis/) { url_of(Opened.new(Object.new)) }
    refused(/Lowkiq\.redis must give a URL or a client of the gem redis, not a Integer/) { url_of(5) }
    refused(/Lowkiq\.redis must be callable, not "redis:/) { Lowkiq.redis = "redis://x" }
  end

  it "R-LOWKIQ-4: every setting of Lowkiq can be read and set" do
    %i[poll_interval threads_per_node client_pool_size pool_timeout].each { |name| expect(Lowkiq.public_send(name)).to be_positive }
    %i[server_middlewares client_middlewares workers].each { |name| expect(Lowkiq.public_send(name)).to eq([]) }
    hooks = %i[redis on_server_init last_words build_scheduler build_splitter dump_payload load_payload format_error dump_error load_error]
    hooks.each do |name|
      expect(Lowkiq.public_send(name)).to respond_to(:call)
      Lowkiq.public_send(:"#{name}=", hook = proc {})
      expect(Lowkiq.public_send(name)).to be(hook)
    end
    expect(Seriatim.on_server_init).to be(Lowkiq.on_server_init)
    expect([Lowkiq.build_lag_scheduler, Lowkiq.build_seq_scheduler]).to eq([Seriatim.build_lag_scheduler, Seriatim.build_seq_scheduler])
    expect([Lowkiq.build_default_splitter, Lowkiq.build_by_node_splitter(2, 0)]).to all(respond_to(:call))
    expect(Lowkiq::Web).to be(Seriatim::Web)
  end

  it "R-LOWKIQ-4: Lowkiq::Queue::QueueMetrics gives the figures of queues in the order of their names" do
    waits, = %w[Waits Empty].map { |name| lowkiq_worker(name) {} }
    waits.perform_async([{ id: 1, payload: "a" }, { id: 1, payload: "b" }, { id: 2, retry_count: 0, perform_in: Time.now - 9 }])
    empty, full = Lowkiq::Queue::QueueMetrics.new(:pool).call(%w[Empty Waits])
    expect(empty.to_a).to eq([0] * 8)
    expect(full).to have_attributes(length: 2, fresh: 1, retries: 1, morgue_length: 0, processed: 0, failed: 0, busy: 0, lag: be_positive)
    refused(/no worker that is loaded has the queue "Unknown"/) { Lowkiq::Queue::QueueMetrics.new.call(["Unknown"]) }
  end

  it "R-LOWKIQ-4: shards have Lowkiq's names, and say what took the place of running them by hand" do
    Lowkiq.workers = [lowkiq_worker("A") {}]
    expect(Lowkiq.shard_handlers.map { |shard| [shard.queue_name, shard.shard_index, shard.worker] }).to eq(Array.new(5) { |i| ["A", i, Lowkiq.workers.first] })
    refused(/Seriatim\.pop takes one id/) { Lowkiq.shard_handlers.first.process }
  end

  it "R-LOWKIQ-5: is refused beside the gem lowkiq, and keeps it from being loaded later" do
    output, status = Open3.capture2e(*Command::RUBY, "-e", 'module Lowkiq; end; require "seriatim/lowkiq"')
    expect([output, status.success?]).to match([/take the gem lowkiq out of the Gemfile/, false])
    expect(require("lowkiq")).to be(false)
  end
end
