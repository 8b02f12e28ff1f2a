# frozen_string_literal: true

require_relative "outbox_database"
require "seriatim/outbox"

# Writers that commit entries with jobs, and relays that push them, in processes that are killed at any moment. What was committed
# is in the table of the entries: by `place`, an order's entries are in the order of their commits, because a writer gives the place
# while it holds the lock under which it has written the job.
class OutboxStorm
  ORDERS = 2
  WRITERS = 3
  RELAYS = 2

  attr_reader :kills

  # @param redis [RedisServer] its data survives a restart
  def initialize(config, worker, redis)
    @config = config
    @worker = worker
    @redis = redis
    @kills = 0
    ORDERS.times { |id| OutboxDatabase::Order.create!(id: id + 1) }
  end

  # @param count [Integer] processes that are killed, or times that Redis is restarted
  def run(count, random)
    @processes = (Array.new(WRITERS) { [:write, nil] } + Array.new(RELAYS) { [:relay, nil] }).map { |kind, _| [kind, start(kind)] }
    while @kills < count
      wait_for_a_commit
      sleep(random.rand * 0.2)
      (@kills % 20 == 19) ? @redis.restart(:KILL) : kill_one(random)
      @kills += 1
    end
  ensure
    @processes.each { |_, pid| kill(pid) }
  end

  # Pushes what is left.
  def finish
    pid = start(:relay)
    yield
  ensure
    kill(pid)
  end

  # @return [Hash] order => tokens, in the order of the commits
  def committed
    OutboxDatabase::Entry.order(:order_id, :place).group_by { |entry| entry.order_id.to_s }.transform_values { |entries| entries.map(&:token) }
  end

  private

  # On a busy machine a writer would be killed before it has written anything.
  def wait_for_a_commit
    seen = OutboxDatabase::Entry.count
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 120
    until OutboxDatabase::Entry.count > seen
      raise "no writer has committed for 120 s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep(0.01)
    end
  end

  def kill_one(random)
    at = random.rand(@processes.size)
    kind, pid = @processes[at]
    kill(pid)
    @processes[at] = [kind, start(kind)]
  end

  def kill(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def start(kind)
    fork do
      $stdout.sync = true
      Seriatim.logger = nil
      ActiveRecord::Base.establish_connection(@config)
      public_send(kind)
    ensure
      exit!(1)
    end
  end

  public

  # One transaction after another, until it is killed.
  def write
    random = Random.new
    loop do
      ActiveRecord::Base.transaction { commit(random.rand(1..ORDERS), Array.new(random.rand(1..3)) { "#{Process.pid}-#{random.rand(1 << 60)}" }) }
    rescue ActiveRecord::ActiveRecordError # rolled back: SQLite refuses to write what was read before another one's commit
      nil
    ensure
      sleep(random.rand * 0.02)
    end
  end

  def relay = Seriatim::Outbox.const_get(:Relay).new.run(Class.new { def wait(seconds) = sleep([seconds, 0.3].min) && nil }.new)

  # In the transaction that is open. The order is changed behind the job, so that its lock does not order the jobs.
  def commit(id, tokens)
    @worker.perform_async_in_transaction(tokens.map { |token| { id: id, payload: token } })
    sleep(rand * 0.01) # without the lock, another writer would commit meanwhile
    places = tokens.map { |token| [token, place_of_next(id)] }
    OutboxDatabase::Entry.insert_all!(places.map { |token, place| { order_id: id, place: place, token: token } })
    raise ActiveRecord::Rollback if rand < 0.1
  end

  def place_of_next(id)
    OutboxDatabase::Order.where(id: id).update_all("entries = entries + 1")
    OutboxDatabase::Order.where(id: id).pick(:entries)
  end
end
