# frozen_string_literal: true

require_relative "kit"

# Jobs that lie in queues while something happens to these, and do not run until they are told to: delayed, retried, parked, dead and
# scheduled ones. In a queue that is paused, they are due. `stored` tells all that is stored of them; `release` lets all of
# them run, also by the handles that their pushes returned.
class KeptJobs
  QUEUES = { "Merge" => "merge", "List" => "list", "Last" => "last", "First" => "first" }.freeze # name => fold mode
  PUSHED = [1, 2, 3].freeze # to each id
  RUN = { "merge" => PUSHED, "list" => PUSHED, "last" => [3], "first" => [1] }.freeze # what is left of that
  LATER = 4 # the number of what is scheduled
  # By what is left of the number of an id, divided by 20. The others wait.
  KINDS = { 0 => :parked, 1 => :dead, 2 => :scheduled, 3 => :waiting_and_scheduled, 4 => :retried }.freeze
  FAR = 36_000 # seconds
  HUGE = "big" # an id with many payloads, of the queue that keeps all of them. It moves between 3, 5 and 16 shards.
  SETTINGS = { batch_size: 10, max_retry_count: 1_000_000, back_off: 0.05 }.freeze

  # @param queues [Hash{String => String}] name => fold mode
  # @param paused [String, nil] one of them
  # @param ids [Integer] in each queue
  # @param payloads [Integer] of the huge id
  # @param history [Integer] history_per_id, which the server in C does not have
  # @param push [Hash] options of each push
  def initialize(kit, shards:, ids:, payloads:, queues: QUEUES, paused: nil, history: 0, push: {})
    @kit = kit
    @queues = queues
    @paused = paused
    @ids = (1..ids).map { |number| "id#{number}" }
    @push = push
    @handles = {}
    queues.each { |queue, fold| kit.queue(queue, shards_count: shards, fold: fold, history_per_id: history, **SETTINGS) }
    pause if paused
    queues.each_key { |queue| fill(queue) }
    queues.each { |queue, fold| push(queue, [HUGE], 1..payloads) if fold == "list" }
  end

  # @return [Hash] queue => what its queries tell of each id, and its metrics
  def stored
    @queues.to_h do |queue, _|
      queries = @kit[queue].queries
      found = (@ids + [HUGE]).each_slice(500).map { |ids| [queries.fetch(ids), queries.morgue_fetch(ids)] }.transpose.map(&:flatten)
      told = @ids.first(40).to_h { |id| [id, queries.explain(id).slice(:job, :dead, :scheduled, :history)] }
      [queue, { waiting: found[0], dead: found[1], parked: queries.parked(limit: 100_000), told: told, counts: counts(queue) }]
    end
  end

  # @return [Array<String>] what is not as it was, in short
  def self.differences(before, after)
    before.flat_map do |queue, parts|
      parts.flat_map do |part, was|
        is = after[queue][part].to_a
        ((was.to_a - is) + (is - was.to_a)).first(4).map { |one| "#{queue} #{part}: #{one.inspect[0, 400]}" }
      end
    end
  end

  # Lets all of them run, and waits until they have, but for those that were scheduled: these run then.
  def release(seconds)
    @kit[@paused].actions.resume if @paused
    @queues.each_key do |queue|
      actions = @kit[queue].actions
      %i[unpark_all morgue_queue_up_all_jobs perform_all_jobs_now].each { |name| actions.public_send(name) }
    end
    wait_for_runs(seconds)
    @handles.each { |queue, handles| handles.each { |handle| @kit[queue].actions.reschedule(handle, 0) or raise "the handle #{handle} is unknown" } }
  end

  private

  def pause
    @kit[@paused].perform_async([{ id: "none" }]) # a push makes the queue
    @kit[@paused].actions.pause
    @kit[@paused].actions.delete(["none"])
  end

  def wait_for_runs(seconds)
    waiting = -> { @queues.to_h { |queue, _| [queue, @kit[queue].metrics.slice(:length, :busy, :parked, :morgue_length)] } }
    @kit.eventually(seconds, -> { "they do not run: #{waiting.call}" }) { waiting.call.values.flat_map(&:values).sum.zero? }
  end

  def counts(queue)
    metrics = @kit[queue].metrics
    { **metrics.slice(:length, :scheduled, :retries, :morgue_length, :parked), paused: metrics[:paused] == metrics[:shards].size }
  end

  def fill(queue)
    of = @ids.group_by { |id| KINDS.fetch(id[2..].to_i % 20, :waiting) }
    %i[retried dead].each { |kind| push(queue, of[kind], PUSHED, retry_count: 2) }
    %i[waiting parked waiting_and_scheduled].each { |kind| push(queue, of[kind], PUSHED) }
    @handles[queue] = %i[scheduled waiting_and_scheduled].flat_map { |kind| push(queue, of[kind], [LATER], deliver_in: FAR).handles }
    @kit[queue].actions.kill(of[:dead])
    @kit[queue].actions.park(of[:parked])
  end

  def push(queue, ids, numbers, **job)
    job = { delay: FAR, **job } unless queue == @paused || job[:deliver_in]
    jobs = ids.flat_map { |id| numbers.map { |number| { id: id, payload: { n: number }, **job } } }
    result = @kit[queue].perform_async(jobs, **@push)
    @kit.journal.pushed_to(queue, ids, job[:deliver_in] || ids == [HUGE] ? numbers.to_a : RUN.fetch(@queues[queue]))
    result
  end
end
