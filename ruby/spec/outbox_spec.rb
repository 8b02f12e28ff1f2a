# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "support/outbox_database"
require_relative "../../spec/support/redis_cluster"
require "seriatim/outbox"

RSpec.describe Seriatim::Outbox, limit: 240 do
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { ActiveRecord::Base.connection_pool.disconnect! if @config }

  def database(adapter)
    skip "PostgreSQL is not installed" if adapter == "PostgreSQL" && !PostgresServer.installed?
    @config = OutboxDatabase.open(adapter, @dir)
  end

  def transaction(&block) = ActiveRecord::Base.transaction(&block)
  def rows = described_class.const_get(:Row)
  def orders = @orders ||= worker("Orders", fold: :list, shards_count: 2)
  def relay = @relay ||= described_class.const_get(:Relay).new

  # Jobs of this id and these payloads, in a transaction of their own.
  def commit(id, *payloads, **options)
    transaction { orders.perform_async_in_transaction(payloads.map { |payload| { id: id, payload: payload, **options } }) }
  end

  # Of jobs that are wrong by themselves, and of those that exceed a limit of a push.
  def expect_refusals
    [[{ id: 1, payload: Float::NAN }, /jobs\[1\]\.payload/], [{ id: "x" * 1025 }, /jobs\[1\]: id is 1025 bytes long/],
     [{ id: 1, payload: "x" * 1_048_577 }, /jobs\[1\]: payload/],
     [{ id: 1, perform_in: 60 }, /jobs\[1\]: perform_in/], [{ id: 1, score: Float::INFINITY }, /jobs\[1\]: score/]].each do |job, message|
      transaction do
        expect { orders.perform_async_in_transaction([{ id: 0 }, job]) }.to raise_error(Seriatim::Invalid, message)
      end
    end
  end

  # The payloads in the queue, by id, in the order in which they will be delivered.
  def waiting(worker = orders, limit: 100)
    worker.queries.range_by_id("-", "+", limit: limit).to_h { |record| [record[:id], record[:payloads].map(&:first)] }
  end

  OutboxDatabase::ADAPTERS.each do |adapter|
    context "with #{adapter}" do
      before { database(adapter) }

      it "R-OUTBOX-3: pushes and counts what another connection has committed, also where ActiveRecord caches queries" do
        ActiveRecord::Base.cache do
          relay.turn
          expect(described_class.metrics).to eq(waiting: 0, lag: 0.0)
          Thread.new { ActiveRecord::Base.connection_pool.with_connection { commit(1, "a") } }.join
          expect(described_class.metrics).to include(waiting: 1)
          relay.turn
          expect(waiting).to eq("1" => %w[a])
        end
      end

      it "R-OUTBOX-3: pushes what was committed, in order, with its options, and nothing that was rolled back" do
        commit(1, "a", "b")
        transaction do
          orders.perform_async_in_transaction([{ id: 1, payload: "rolled back" }])
          raise ActiveRecord::Rollback
        end
        commit("é\n", { "x" => 1 }, score: 5, context: { "trace" => "t" })
        commit(3, "later", deliver_in: 3600)
        expect(described_class.metrics).to include(waiting: 4)
        expect(waiting).to eq({})
        relay.turn
        expect(waiting).to eq("1" => %w[a b], "é\n" => [{ "x" => 1 }])
        expect(orders.queries.fetch(["é\n"]).first[:payloads]).to eq([[{ "x" => 1 }, 5.0]])
        expect(orders.queries.range_by_deliver_at("-inf", "+inf").map { |record| record[:id] }).to eq(["3"])
        expect(described_class.metrics).to eq(waiting: 0, lag: 0.0)
      end

      it "R-OUTBOX-4: refuses wrong jobs, and calls outside of a transaction, before anything is written" do
        expect { orders.perform_async_in_transaction([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /no transaction is open/)
        expect_refusals
        expect(rows.count).to eq(0)
      end

      it "gives later rows higher numbers, although the row of the outbox was deleted" do
        commit(1, "a", "b")
        relay.send(:number_rows)
        described_class.const_get(:Counter).delete_all
        commit(1, "c")
        2.times { relay.turn }
        expect(waiting).to eq("1" => %w[a b c])
      end

      it "R-OUTBOX-10: pushes in memory after the commit in a test mode" do
        Seriatim.testing!(:fake) do
          expect_refusals
          transaction do
            commit(1, "a")
            expect(orders.jobs).to eq([])
          end
          transaction { commit(2, "b") && raise(ActiveRecord::Rollback) }
          expect(orders.jobs.map { |job| job.values_at(:id, :payload) }).to eq([%w[1 a]])
        end
        expect(rows.count).to eq(0)
      end

      it "R-OUTBOX-5: pushes each job once, although a relay dies before it has deleted the rows" do
        commit(1, "a", "b")
        commit(2, "c")
        allow(rows).to receive(:where).and_call_original
        allow(rows).to receive(:where).with(id: kind_of(Array)).and_wrap_original do |original, *arguments|
          original.call(*arguments).tap { |relation| allow(relation).to receive(:delete_all).and_raise(Interrupt) }
        end
        expect { relay.turn }.to raise_error(Interrupt)
        RSpec::Mocks.space.proxy_for(rows).reset
        commit(1, "d")
        relay.turn
        expect(waiting).to eq("1" => %w[a b d], "2" => %w[c])
        expect(rows.count).to eq(0)
      end

      # The next turn ends with an error of the database.
      def fail_once
        commit(1, "a")
        errors = [ActiveRecord::StatementTimeout.new("database is locked")]
        allow(relay).to receive(:number_rows).and_wrap_original { |original| (error = errors.shift) ? raise(error) : original.call }
        relay.turn
        expect(@log.string).to include("nothing is pushed, the next attempt is in 0.4 s: ActiveRecord::StatementTimeout: database is locked")
      end

      it "R-OUTBOX-6: goes on after an error of the database" do
        relay.turn
        fail_once
        expect(waiting).to eq({})
        relay.turn
        expect(waiting).to eq("1" => ["a"])
        expect(@log.string).to include("outbox pushes again")
      end

      it "R-OUTBOX-6: does not say after an error that it pushes again while another relay works" do
        fail_once
        allow(relay).to receive(:owns?).and_return(false)
        2.times { relay.turn }
        expect(@log.string).not_to include("pushes again")
      end

      it "passes over a queue that cannot be pushed, and goes on with it later" do
        broken = worker("Withdrawn")
        transaction { broken.perform_async_in_transaction([{ id: 1 }]) }
        Seriatim::Worker.all.delete(broken)
        commit(1, "a")
        2.times { relay.turn }
        expect(waiting).to eq("1" => ["a"])
        expect(rows.pluck(:queue)).to eq(["Withdrawn"])
        expect(@log.string).to match(/the jobs of this queue wait, the next attempt is in 0.4 s: Seriatim::Invalid: the queue does not exist/)
        broken.perform_async([{ id: 2 }]) # makes the queue
        eventually { relay.turn && rows.count.zero? }
        expect(waiting(broken)).to eq("1" => [""], "2" => [""])
      end

      it "waits while Redis is away" do
        commit(1, "a")
        redis = RedisServer.new
        Seriatim.redis = redis.url
        redis.stop
        eventually { relay.turn && @log.string.scan(/the jobs of this queue wait, the next attempt is in \d+\.\d s: Seriatim::ConnectionError/).size > 1 }
        redis.start
        eventually { relay.turn && rows.count.zero? }
        expect(waiting).to eq("1" => ["a"])
      ensure
        redis.remove
      end

      it "R-OUTBOX-6: lets one relay work, and the next one when that process is gone" do
        reader, writer = IO.pipe
        pid = fork do
          described_class.const_get(:Relay).new.turn
          writer.puts("works")
          sleep
        end
        expect(reader.gets).to eq("works\n")
        commit(1, "a")
        expect(relay.turn).to eq(1.0)
        expect(waiting).to eq({})
        Process.kill(:KILL, pid)
        Process.wait(pid)
        eventually { relay.turn && rows.count.zero? }
        expect(waiting).to eq("1" => ["a"])
      end
    end
  end

  it "R-OUTBOX-4: refuses calls while ActiveRecord is connected to another shard than the default one" do
    database("SQLite")
    ActiveRecord::Base.connected_to(role: :writing, shard: :second) do
      ActiveRecord::Base.establish_connection(@config.merge(database: File.join(@dir, "second.sqlite3")))
      CreateSeriatimOutbox.new.change
      transaction do
        expect { orders.perform_async_in_transaction([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /connected to the shard second, and the outbox is in the shard default/)
      end
      expect(rows.count).to eq(0)
    ensure
      ActiveRecord::Base.remove_connection
    end
    expect { commit(1, "a") }.to change(rows, :count).by(1)
  end

  it "R-OUTBOX-4: checks and writes jobs while all connections to Redis are in use" do
    database("SQLite")
    Seriatim.client_pool_size = 1
    Seriatim.pool_timeout = 0.1
    Seriatim::Pool.current.with { commit(1, "a") && expect_refusals }
    expect(rows.count).to eq(1)
  end

  it "keeps no connection to the database for a call outside of a transaction" do
    database("SQLite")
    pool = ActiveRecord::Base.connection_pool
    pool.release_connection
    expect { orders.perform_async_in_transaction([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /no transaction is open/)
    expect(pool.active_connection?).to be_falsey
  end

  it "writes and pushes where ActiveRecord refuses connections that stay with a thread" do
    skip "permanent_connection_checkout came with Rails 7.2" unless ActiveRecord.respond_to?(:permanent_connection_checkout=)
    database("SQLite")
    ActiveRecord::Base.connection_pool.release_connection
    ActiveRecord.permanent_connection_checkout = :disallowed
    expect { orders.perform_async_in_transaction([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /no transaction is open/)
    commit(1, "a")
    relay.turn
    expect(waiting).to eq("1" => ["a"])
  ensure
    ActiveRecord.permanent_connection_checkout = true if ActiveRecord.respond_to?(:permanent_connection_checkout=)
  end

  context "with a replica" do
    before { database("SQLite") }
    before do
      port = RedisServer.free_port
      @master = RedisServer.new("--port", port.to_s, "--repl-diskless-sync-delay", "0")
      @replica = RedisServer.new("--replicaof", "127.0.0.1 #{port}")
      eventually { @master.call("INFO", "replication")[/state=online/] }
      Seriatim.redis = @master.url
      Seriatim.wait_replicas = 1
      Seriatim.wait_timeout = 0.05
    end

    after { [@master, @replica].each(&:remove) }

    # While the replica answers nothing.
    def without_replica
      Process.kill(:STOP, @replica.pid)
      yield
    ensure
      Process.kill(:CONT, @replica.pid)
    end

    def changes = @master.call("INFO", "persistence")[/rdb_changes_since_last_save:(\d+)/, 1].to_i

    # In Redis 7.2, WAIT on a connection that has written nothing waits for nothing.
    it "R-OUTBOX-11: keeps the rows until the replica has the jobs, although a later push finds them written" do
      commit(1, "a", "b")
      without_replica do
        relay.turn
        expect(@log.string).to match(/the next attempt is in 0.4 s: Seriatim::NotReplicated: the push is written, 0 of 1 replicas have it/)
        Seriatim.redis = @master.url # connections are made anew
        before = changes
        eventually { relay.turn && @log.string.match?(/the next attempt is in 0.8 s: Seriatim::NotReplicated/) }
        expect(changes).to be > before
        expect(rows.count).to eq(2)
      end
      Seriatim.wait_timeout = 10
      eventually { relay.turn && rows.count.zero? }
      expect(waiting).to eq("1" => %w[a b])
    end
  end

  context "with a queue that cannot be pushed" do
    before { database("SQLite") }

    def broken = @broken ||= worker("Broken", fold: :list)

    # Beside jobs of Orders that are committed before the first attempt and after the second one. The block mends the queue.
    def expect_others_go_on(error, *before)
      transaction { broken.perform_async_in_transaction([{ id: 1, payload: "late" }]) }
      commit(1, "a")
      eventually { relay.turn && @log.string.scan(/q=Broken .*the jobs of this queue wait, the next attempt is in \d+\.\d s: #{error}/).size > 1 }
      expect(rows.pluck(:queue)).to eq(["Broken"])
      commit(1, "b")
      2.times { relay.turn }
      expect(rows.pluck(:queue)).to eq(["Broken"])
      yield
      eventually { relay.turn && rows.count.zero? }
      expect([waiting, waiting(broken)]).to eq([{ "1" => [*before, "a", "b"] }, { "1" => [*before, "late"] }])
      expect(@log.string).to include("q=Broken outbox pushes this queue again")
    end

    it "R-OUTBOX-14: says when it tries the queue again, also after a push that took long" do
      attempts = 0
      allow(relay).to receive(:push_rows) do
        attempts += 1
        sleep 1
        raise Seriatim::ConnectionError, "gone"
      end
      commit(1, "a")
      relay.turn
      sleep @log.string[/the next attempt is in (\d+\.\d) s: Seriatim::ConnectionError: gone/, 1].to_f + 0.1
      relay.turn
      expect(attempts).to eq(2)
    end

    it "R-OUTBOX-14: pushes the other queues if the user may not write one" do
      REDIS.call("ACL", "SETUSER", "relay", "on", ">secret", "+@all", "~seriatim:queues", "~seriatim:*Orders*")
      Seriatim.redis = REDIS.url.sub("unix://", "unix://relay:secret@")
      expect_others_go_on("Seriatim::AuthError") { Seriatim.redis = REDIS.url }
    ensure
      REDIS.call("ACL", "DELUSER", "relay")
    end

    it "R-OUTBOX-14: pushes the other queues if the layout of one cannot be read" do
      broken
      REDIS.call("SET", "seriatim:{Broken}:layout", "garbage")
      expect_others_go_on("Seriatim::Unsupported: the layout of the queue in Redis cannot be read: garbage") do
        REDIS.call("DEL", "seriatim:{Broken}:layout")
      end
    end

    it "R-OUTBOX-14: pushes the other queues while a master of the cluster is down" do
      cluster = RedisCluster.new(masters: 2, replicas: 0, arguments: %w[--cluster-require-full-coverage no])
      Seriatim.redis = cluster.url
      @orders = worker("Late", fold: :list, shards_count: 1) # on the master that stays; its layout is on the other one
      @broken = worker("Broken", fold: :list, shards_count: 1)
      [orders, broken].each { |queue| queue.perform_async([{ id: 1, payload: "early" }]) }
      Seriatim.push_timeout = 3
      master = cluster.master_of(cluster.slot_of("{Broken/0}"))
      master.kill
      expect_others_go_on("Seriatim::(ConnectionError|OutcomeUnknown)", "early") { master.restart }
    ensure
      cluster&.remove
    end
  end

  context "with PostgreSQL" do
    before { database("PostgreSQL") }

    # In a thread and a connection of its own: its transaction is open until the block that is returned is called.
    def open_transaction(id, payload)
      written, go_on = Thread::Queue.new, Thread::Queue.new
      thread = Thread.new do
        transaction do
          orders.perform_async_in_transaction([{ id: id, payload: payload }])
          written << true
          go_on.pop
        end
      ensure
        ActiveRecord::Base.connection_handler.clear_active_connections!
      end
      [written, -> { go_on.push(true) && thread.join }]
    end

    it "R-OUTBOX-7: passes over no row that is committed later than one with a higher id" do
      written, finish = open_transaction(1, "first row")
      written.pop
      commit(2, "second row")
      relay.turn
      expect(waiting).to eq("2" => ["second row"])
      finish.call
      relay.turn
      expect(waiting).to eq("1" => ["first row"], "2" => ["second row"])
    end

    it "R-OUTBOX-6: lets a relay of another schema of the database work, and no second one of its own" do
      others = (connections = Array.new(3) { ActiveRecord::Base.connection_pool.checkout }).last
      others.execute("CREATE SCHEMA others")
      others.schema_search_path = "others"
      others.execute("CREATE TABLE seriatim_outboxes (id bigint)")
      locks = connections.map { |connection| described_class.const_get(:Lock).for(connection) }
      expect(locks.map(&:acquire)).to eq([true, false, true])
      expect(locks.map(&:held?)).to eq([true, false, true])
      locks.first.release
      expect(locks[1].acquire).to be(true)
    ensure
      others&.execute("DROP SCHEMA IF EXISTS others CASCADE")
      connections&.each { |connection| ActiveRecord::Base.connection_pool.checkin(connection) }
    end

    it "makes a transaction wait for another one that has written jobs of the same id" do
      written, finish = open_transaction(1, "a")
      written.pop
      second, finish_second = open_transaction(1, "b")
      sleep 0.2
      expect(second).to be_empty
      finish.call
      second.pop
      finish_second.call
      relay.turn
      expect(waiting).to eq("1" => %w[a b])
    end
  end
end
