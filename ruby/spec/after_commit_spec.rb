# frozen_string_literal: true

require_relative "spec_helper"

# Pushes in transactions of ActiveRecord: its own API from Rails 7.2 on, ours before.
RSpec.describe "pushes after the commit" do
  before(:all) do
    missing = %w[activerecord sqlite3].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    skip "#{missing.join(" and ")} are not installed" unless missing.empty?
    require "logger" # which ActiveSupport 6.1 forgets
    require "active_record"
    @dir = Dir.mktmpdir
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File.join(@dir, "db"))
  end
  after(:all) { @dir && ActiveRecord::Base.connection_handler.clear_all_connections! && FileUtils.rm_rf(@dir) }

  before { @ran = [] }

  def transaction(**options, &block) = ActiveRecord::Base.transaction(**options, &block)
  def note(word) = Seriatim.after_commit { @ran << word }
  def note_and_roll_back(word) = note(word) || rollback
  def rollback = raise(ActiveRecord::Rollback)

  it "R-RAILS-7: runs at once without a transaction" do
    expect(note(1)).to be_nil
    expect(@ran).to eq([1])
    ActiveRecord::Base.connection.select_value("select 1") # this thread holds a connection now
    note(2)
    expect(@ran).to eq([1, 2])
    Thread.new { note(3) }.join
    expect(@ran).to eq([1, 2, 3])
  end

  it "R-RAILS-7: runs in the order of the calls when the outermost transaction is committed" do
    transaction do
      note(1)
      transaction { note(2) }
      transaction(requires_new: true) do
        note(3)
        transaction(requires_new: true) { note(4) }
      end
      note(5)
      expect(@ran).to eq([])
    end
    expect(@ran).to eq([1, 2, 3, 4, 5])
  end

  it "R-RAILS-7: runs nothing after a rollback, nor what was called in a savepoint that is rolled back" do
    transaction { note_and_roll_back(1) }
    expect { transaction { note(2) || raise("no") } }.to raise_error("no")
    transaction do
      note(3)
      transaction(requires_new: true) { note_and_roll_back(4) }
      transaction(requires_new: true) do
        transaction(requires_new: true) { note(5) }
        rollback
      end
      note(6)
    end
    expect(@ran).to eq([3, 6])
    transaction do
      transaction(requires_new: true) { note(7) }
      rollback
    end
    expect(@ran).to eq([3, 6])
  end

  it "R-RAILS-7: sees what was committed, and may open transactions itself" do
    seen = nil
    transaction do
      Seriatim.after_commit do
        seen = ActiveRecord::Base.connection.transaction_open?
        transaction { note(1) }
        note(2)
      end
    end
    expect([seen, @ran]).to eq([false, [1, 2]])
  end

  it "R-RAILS-7: counts the transaction around a test as none" do
    transaction(joinable: false) do
      note(1)
      expect(@ran).to eq([1])
      transaction { note_and_roll_back(2) }
      transaction do
        note(3)
        expect(@ran).to eq([1])
      end
      expect(@ran).to eq([1, 3])
      rollback
    end
  end

  it "R-RAILS-7: runs at once in a transaction that none can join, also inside another one" do
    transaction do
      transaction(joinable: false) { note(1) } # joins the outer one
      expect(@ran).to eq([])
      transaction(requires_new: true, joinable: false) { note(2) }
      expect(@ran).to eq([2])
    end
    expect(@ran).to eq([2, 1])
  end

  it "R-RAILS-7: raises the error of a block, and keeps what was committed" do
    expect { transaction { Seriatim.after_commit { raise "no Redis" } } }.to raise_error("no Redis")
    note(1)
    expect(@ran).to eq([1])
  end

  it "R-RAILS-8: pushes in the order of the calls, or nothing" do
    queue = worker("AfterCommit", fold: :list)
    transaction { queue.perform_async_after_commit([{ id: 1, payload: "lost" }]) || rollback }
    transaction do
      expect(queue.perform_async_after_commit([{ id: 1, payload: 1 }])).to be_nil
      expect(queue.perform_async_after_commit([{ "id" => 1, "payload" => 2 }], handle: true)).to be_nil
      expect(queue.metrics[:length]).to eq(0)
    end
    expect(queue.perform_async_after_commit([{ id: 2 }]).added).to eq(1)
    serve(queue)
    expect(runs(queue, 2).map(&:payloads).reduce(:merge)).to eq("1" => [1, 2], "2" => [""])
    expect { transaction { queue.perform_async_after_commit([{ payload: 1 }]) } }.to raise_error(Seriatim::Invalid, /id/)
  end

  # A class of ActiveJob with the setting that Rails has from 7.2 on.
  def job_class(name, waits)
    stub_const(name, Class.new(ActiveJob::Base) do
      queue_as "jobs"
      ordered_by { 1 }
      attr_accessor :successfully_enqueued
      alias_method :successfully_enqueued?, :successfully_enqueued
      define_singleton_method(:enqueue_after_transaction_commit) { waits }
    end)
  end

  it "R-JOB-5: enqueues many jobs after the commit where their class says so, and in their order without a transaction" do
    skip "ActiveJob is not installed" unless Gem::Specification.find_all_by_name("activejob").any?
    require "active_job/queue_adapters/seriatim_adapter"
    adapter = ActiveJob::QueueAdapters::SeriatimAdapter.new
    settings = [true, :always, :default, false, :never]
    jobs = -> { settings.map { |waits| job_class("Waits#{waits.to_s.capitalize}Job", waits).new } }
    enqueued = -> { waiting(Seriatim::ActiveJob.queue("jobs")).values.flatten.map { |job| job["job_class"][/Waits(.*)Job/, 1] } }
    transaction { adapter.enqueue_all(jobs.call) && rollback }
    expect(enqueued.call).to eq(%w[False Never])
    transaction do
      expect(adapter.enqueue_all(jobs.call)).to eq(5)
      expect(enqueued.call).to eq(%w[False Never] * 2)
    end
    expect(enqueued.call).to eq((%w[False Never] * 2) + %w[True Always Default])
    mixed = jobs.call.values_at(3, 0, 4, 1)
    expect(adapter.enqueue_all(mixed)).to eq(4)
    expect(enqueued.call.last(4)).to eq(%w[False True Never Always])
    expect(mixed.map(&:provider_job_id)).to all(start_with("jobs:"))
    Seriatim.redis = "redis://127.0.0.1:1"
    Seriatim.push_timeout = 0.5
    expect { adapter.enqueue_all([mixed[1]]) }.to raise_error(Seriatim::Error)
    expect(mixed[1].successfully_enqueued).to be(false)
  end

  def waiting(of) = of.queries.range_by_id("-", "+").to_h { |row| [row[:id], row[:payloads].map(&:first)] }

  it "R-RAILS-8: refuses at the call what a push refuses, and so rolls the transaction back" do
    queue = worker("Checked", fold: :list)
    [[{ id: "" }, /id is empty/], [{ id: "x" * 1025 }, /1025 bytes/], [{ id: 1, score: Float::NAN }, /score/], [{ id: 1, delay: 1e20 }, /delay/],
     [{ id: 1, perform_in: 60 }, /perform_in/], [{ id: 1, on_waiting: :never }, /on_waiting/], [{ id: 1, payload: "x" * 2_000_000 }, /payload is/],
     [{ id: 1, payload: Object.new }, /payload/], [{ id: 1, context: { "a" => 1 } }, /context/]].each do |job, said|
      expect { transaction { note(1) || queue.perform_async_after_commit([job]) } }.to raise_error(Seriatim::Invalid, said), job.inspect[0, 80]
    end
    expect { transaction { queue.perform_async_after_commit([{ id: 1 }], push_timeout: "x") } }.to raise_error(Seriatim::Invalid, /push_timeout/)
    expect { transaction { queue.perform_async_after_commit([{ id: 1 }], wait_replica: 1) } }.to raise_error(ArgumentError, /wait_replica/)
    expect([@ran, queue.metrics[:length]]).to eq([[], 0])
  end

  it "R-RAILS-8: checks jobs at the call while all connections to Redis are in use" do
    Seriatim.client_pool_size = 1
    Seriatim.pool_timeout = 0.1
    queue = worker("Checked")
    Seriatim::Pool.current.with do
      expect { transaction { queue.perform_async_after_commit([{ id: 1 }]) || rollback } }.not_to raise_error
      expect { transaction { queue.perform_async_after_commit([{ id: "" }]) } }.to raise_error(Seriatim::Invalid, /id is empty/)
    end
    expect(queue.metrics[:length]).to eq(0)
  end

  it "R-RAILS-8: pushes what was given at the call, after the middlewares, whatever is changed later" do
    queue = worker("Copied", fold: :list)
    tenant = +"a"
    Seriatim.client_middlewares = [->(_, jobs, &block) { jobs.each { |job| job[:context] = { "tenant" => tenant } } && block.call }]
    id = +"1"
    payload = { "status" => "new", "items" => [1] }
    transaction do
      queue.perform_async_after_commit([{ id: id, payload: payload }])
      payload["status"] = "paid"
      payload["items"] << 2
      queue.perform_async_after_commit([{ id: id, payload: payload }])
      id << "0"
      payload["order"] = Object.new
      tenant << "b"
    end
    delivery = Seriatim.pop([queue], wait: 0)
    expect([delivery.id, delivery.payloads]).to eq(["1", [{ "status" => "new", "items" => [1] }, { "status" => "paid", "items" => [1, 2] }]])
    expect(delivery.contexts).to eq([{ "tenant" => "a" }] * 2)
  end

  it "R-RAILS-8: goes by an override of perform_async, joins a pipeline at the commit, and keeps jobs in memory in a test mode" do
    queue = worker("Overridden", fold: :list)
    queue.define_singleton_method(:perform_async) { |jobs, **options| super(jobs.map { |job| job.merge(payload: "#{job[:payload]}!") }, **options) }
    Seriatim.pipelined do
      transaction { expect(queue.perform_async_after_commit([{ id: 1, payload: "a" }])).to be_nil }
      expect(queue.metrics[:length]).to eq(0)
    end
    transaction { queue.perform_async_after_commit([]) }
    expect(waiting(queue)).to eq("1" => ["a!"])
    Seriatim.testing!(:fake) do
      transaction { queue.perform_async_after_commit([{ id: 2, payload: "b" }]) && expect(queue.jobs).to(eq([])) }
      expect(queue.jobs.map { |job| job.values_at(:id, :payload) }).to eq([%w[2 b!]])
    end
  end
end
