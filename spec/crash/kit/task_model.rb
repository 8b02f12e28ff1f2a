# frozen_string_literal: true

require "seriatim"

# One id of a queue, as the rules say that it behaves: what a run must be given, and what is left after each of its ends. A random
# sequence of pushes, checkpoints, snoozes and failures goes through it and through a worker of the core at the same time.
class TaskModel
  # score, order: as payloads are sorted
  Entry = Struct.new(:score, :order, :payload) do
    def place = [score, order]
  end
  ARRIVAL = 1e12 # stands for the scores of payloads that were given none: later than all others, and ascending

  attr_reader :worker, :wrong, :runs, :spilled

  # @param fold [String] of the queue
  def initialize(queue, fold, seed)
    @fold = fold
    @random = Random.new(seed)
    @order = 0
    @waiting = []
    @behind = []
    @retry_count = -1
    @runs = @spilled = 0
    @wrong = []
    @worker = build(queue)
  end

  # Nothing waits, nothing will come back, and the last run is settled. To be read by another thread than the worker's.
  def idle? = @idle && @worker.metrics.values_at(:length, :busy).sum.zero?

  # Pushes some payloads while nothing runs. One script call may take but a part of a large push behind a run that is not settled, and
  # the model knows no run between two parts.
  def begin_round
    @idle = false
    push(@waiting)
  end

  # What the worker was given, and what it does with it.
  def perform(payloads, batch)
    @given = fold(@waiting)
    @waiting = []
    @runs += 1
    @spilled += 1 if @given.size > 128
    expect(:payloads, @given.map(&:payload), payloads)
    expect(:retry_count, @retry_count, batch.retry_count("1"))
    @done = 0
    @random.rand(3).times { [method(:checkpoint), ->(_) { push(@behind) }].sample(random: @random).call(batch) }
    finish(batch)
  end

  private

  def build(queue)
    model = self
    fold = @fold
    Module.new do
      extend Seriatim::Worker
      self.queue_name = queue
      self.shards_count = 1
      self.fold = fold
      self.max_retry_count = 1_000_000
      define_singleton_method(:retry_in) { |_count| 0 }
      define_singleton_method(:perform) { |payloads_by_id, batch| model.perform(payloads_by_id.fetch("1"), batch) }
    end
  end

  def expect(what, expected, found)
    @wrong << "#{@fold}, run #{@runs}: #{what} #{found.inspect[0, 300]} instead of #{expected.inspect[0, 300]}" unless found == expected
  end

  # Few payloads, or so many that they lie beside the record. Some are equal to others.
  def push(list)
    count = @random.rand(4).zero? ? @random.rand(150..400) : @random.rand(1..5)
    jobs = Array.new(count) do
      entry = Entry.new(@random.rand(2).zero? ? @random.rand : nil, @order += 1, @random.rand(@random.rand(2).zero? ? 10 : 100_000))
      list << entry
      { id: "1", payload: entry.payload, **(entry.score ? { score: entry.score } : {}) }
    end
    list.last(count).each { |entry| entry.score ||= ARRIVAL + entry.order }
    @worker.perform_async(jobs)
  end

  def checkpoint(batch)
    count = @random.rand(@done..@given.size)
    batch.checkpoint("1", count)
    batch.flush if @random.rand(2).zero?
    @done = count
  end

  def finish(batch)
    left = @given.drop(@done)
    retries = @done.zero? ? @retry_count : -1
    case @random.rand(5)
    when 0, 1 then go_on([], -1)
    when 2, 3
      go_on(left, retries + 1)
      raise "told to fail"
    else snooze(batch, left, retries)
    end
  end

  def snooze(batch, left, retries)
    return batch.snooze("1", 0).tap { go_on(left, retries) } if @random.rand(2).zero?

    payload = @random.rand(10)
    batch.snooze("1", 0, payload: payload)
    left = replaced(left, payload) unless left.empty?
    go_on(left, retries)
  end

  # In a queue that folds equal payloads, those equal to the new one are one with it.
  def replaced(left, payload)
    rest = left.drop(1)
    rest = rest.reject { |entry| entry.payload == payload } if @fold == "merge"
    [Entry.new(left.first.score, left.first.order, payload), *rest]
  end

  # What is left and what was pushed meanwhile become one. Where nothing is left, that goes on as new.
  def go_on(left, retries)
    @retry_count = left.empty? ? -1 : retries
    @waiting = left + fold(@behind)
    @behind = []
    @idle = @waiting.empty?
  end

  def fold(entries)
    sorted = entries.sort_by(&:place)
    case @fold
    when "merge" then sorted.uniq(&:payload)
    when "first" then sorted.first(1)
    when "last" then sorted.last(1)
    else sorted
    end
  end
end
