# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe Seriatim::Worker, :core do
  let(:plain) { Module.new.extend(described_class) }

  it "has these defaults" do
    plain.queue_name = "q"
    expect(plain).to have_attributes(shards_count: 5, batch_size: 1, max_retry_count: 25, fold: :merge, on_waiting: :keep,
                                     on_exhausted: :bury, ttr: nil, serial_shards: false,
                                     morgue_max_age: nil, morgue_max_count: nil, priority: 0, codec: nil)
  end

  it "is named by its module" do
    stub_const("NamedWorker", plain)
    expect(plain.queue_name).to eq("NamedWorker")
    expect { Module.new.extend(described_class).queue_name }.to raise_error(Seriatim::Invalid, /queue_name must be set/)
  end

  {
    shards_count: [0, 4097, "5", nil, 2.5], batch_size: [0, 1001], max_retry_count: [-1, 1_000_001, 1.5],
    queue_name: ["", "x" * 513, 5], fold: [:union, nil, 1], on_waiting: [:never], on_exhausted: ["explode"],
    ttr: [0, -1, "5", Float::NAN, 1e9], serial_shards: ["yes", 1, "true", nil],
    morgue_max_age: [0, -1, "5", 3.2e9], morgue_max_count: [0, 1.5, 1_000_000_001], priority: [1.5, "high"],
    codec: [:yaml, [1, 2], [Marshal.method(:dump)], 5]
  }.each do |field, values|
    values.each do |value|
      it "refuses #{field} = #{value.inspect[0, 30]}" do
        expect { plain.public_send(:"#{field}=", value) }.to raise_error(Seriatim::Invalid, /\A#{field} must be/)
      end
    end
  end

  it "finds out whether perform takes the batch" do
    one = Module.new { extend Seriatim::Worker; def self.perform(payloads) = payloads }
    two = Module.new { extend Seriatim::Worker; def self.perform(payloads, batch) = [payloads, batch] }
    wrapped = Module.new { extend Seriatim::Worker; def self.perform(payloads) = payloads }
    wrapped.singleton_class.prepend(Module.new { def perform(*) = super })
    expect([one, two, wrapped].map(&:takes_batch?)).to eq([false, true, false])
  end

  it "refuses an object that is neither a class nor a module" do
    count = described_class.all.size
    expect { "text".dup.extend(described_class) }.to raise_error(Seriatim::Invalid, /\A"text" \(String\) extends Seriatim::Worker; only a class or a module can\z/)
    expect(described_class.all.size).to eq(count)
  end

  describe "include in place of extend" do
    it "is refused for a class, and the message says what to write" do
      stub_const("SidekiqWorker", Class.new)
      message = "SidekiqWorker includes Seriatim::Worker; write `extend Seriatim::Worker` and `def self.perform(payloads_by_id)` in it"
      expect { SidekiqWorker.include(described_class) }.to raise_error(Seriatim::Invalid, message)
    end

    it "is an extend in `class << self`, of a class and of a module" do
      stub_const("OpenedClass", Class.new { class << self; include Seriatim::Worker; end })
      opened = Module.new { class << self; include Seriatim::Worker; end; self.queue_name = "opened" }
      child = stub_const("OpenedChild", Class.new(OpenedClass))
      expect(%w[OpenedClass opened OpenedChild].map { |queue| described_class.named(queue) }).to eq([OpenedClass, opened, child])
    end

    it "is right for a module that is extended with in turn" do
      shared = Module.new { include Seriatim::Worker; def retry_in(_count) = 7 }
      expect(Module.new.extend(shared).retry_in(0)).to eq(7)
    end
  end

  describe "a class" do
    let(:parent) { Class.new { extend Seriatim::Worker; self.batch_size = 7; def self.perform(payloads) = payloads } }

    it "passes its settings on to its subclasses, but not queue_name" do
      parent.queue_name = "parent"
      expect(Class.new(parent).batch_size).to eq(7)
      expect { Class.new(parent).queue_name }.to raise_error(Seriatim::Invalid, /queue_name must be set/)
    end

    it "registers its subclasses, and theirs" do
      stub_const("RegisteredOrders", Class.new(parent))
      stub_const("RegisteredMails", Class.new(RegisteredOrders))
      nameless = Class.new(parent) { self.queue_name = "nameless" }
      expect(described_class.all.last(4)).to eq([parent, RegisteredOrders, RegisteredMails, nameless])
      expect(%w[RegisteredOrders RegisteredMails nameless].map { |queue| described_class.named(queue) }).to eq([RegisteredOrders, RegisteredMails, nameless])
    end

    it "calls the hook `inherited` of an ancestor, too" do
      told = []
      ancestor = Class.new { define_singleton_method(:inherited) { |child| told << child } }
      orders = Class.new(Class.new(ancestor) { extend Seriatim::Worker })
      expect(told.last).to be(orders)
    end

    it "changes what its subclasses have taken over from it" do
      child = Class.new(Class.new(parent)) { self.queue_name = "child" }
      module_wide = child.payload_codec
      expect(child.queue_settings).to include(batch_size: 7, exhausted_hook: false)
      expect(child).not_to be_takes_batch
      expect(child.queue_settings).to be(child.queue_settings)
      parent.batch_size = 8
      parent.codec = :raw
      parent.define_singleton_method(:perform) { |payloads, batch| [payloads, batch] }
      expect([child.queue_settings[:batch_size], child.takes_batch?, child.payload_codec.load("<bytes>")]).to eq([8, true, "<bytes>"])
      parent.codec = nil
      parent.define_singleton_method(:retries_exhausted) { |jobs| jobs }
      expect([child.queue_settings[:exhausted_hook], child.payload_codec]).to eq([true, module_wide])
    end
  end

  describe "the module's settings" do
    {
      poll_interval: [0, "1", Float::NAN], threads_per_node: [0, 1.5],
      redis: [5, "5", "", "http://x", "redis://h:99999", "redis://h/x", "redis+sentinel://h", "a\0b"], client_pool_size: [0], pool_timeout: [-1],
      server_middlewares: [nil, 5], client_middlewares: [{}], on_server_init: [5], build_scheduler: [nil], build_splitter: [5],
      last_words: [5], dump_payload: ["x"], load_payload: [5], format_error: [nil], dump_error: [nil], load_error: [nil],
      lease_time: [0.1, 4000], stop_timeout: [-1], namespace: ["", "x" * 129, nil, "a\0b"], workers: [5]
    }.each do |field, values|
      values.each do |value|
        it "refuses #{field} = #{value.inspect[0, 20]}" do
          expect { Seriatim.public_send(:"#{field}=", value) }.to raise_error(Seriatim::Invalid, /\A#{field} must be/)
        end
      end
    end

    it "take the URL of every kind of Redis" do
      %w[redis://h:1/2 REDIS://h rediss://u:p@h unix:///s?db=1 unix:/s redis+sentinel://h,i:2/m rediss+sentinel://h/m
         redis+cluster://h,i rediss+cluster://h/0].each do |url|
        expect(Seriatim.redis = url).to eq(Seriatim.redis)
      end
    end

    it "say nothing of a URL that could be a password, and keep what was set before" do
      Seriatim.redis = "redis://h"
      expect { Seriatim.redis = "secret" }.to raise_error(Seriatim::Invalid, /\Aredis must be a Redis URL: the scheme must be redis:(?!.*secret)/)
      expect { Seriatim.redis = "http://u:secret@h" }.to raise_error(Seriatim::Invalid, %r{, not http://\z})
      expect(Seriatim.redis).to eq("redis://h")
    end

    it "has these defaults" do
      Seriatim.reset_settings
      expect(Seriatim).to have_attributes(workers: [], poll_interval: 1, threads_per_node: 5, redis: nil, client_pool_size: 5,
                                          pool_timeout: 5, server_middlewares: [], client_middlewares: [], lease_time: 10,
                                          stop_timeout: 25, namespace: "seriatim", on_server_init: nil)
    end
  end
end
