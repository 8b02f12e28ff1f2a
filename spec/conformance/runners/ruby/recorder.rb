# frozen_string_literal: true

module Conformance
  # What the workers of a scenario are: one a queue, recording its runs and taking turns by the run step's plan.
  module Recorder
    Run = Struct.new(:queue, :jobs, :began, :ended)

    # What a run step plans and sees.
    class Watch
      attr_reader :runs, :exhausted, :wrong

      def initialize(plan, &steps)
        @plan = plan
        @steps = steps
        @turns = Hash.new(0)
        @lock = Mutex.new
        @runs = []
        @exhausted = []
        @wrong = []
      end

      def begin(label, batch)
        @lock.synchronize do
          @runs << run = Run.new(label, batch.ids.map { |id| seen(id, batch) }, Time.now.to_f)
          [run, batch.ids.map { |id| [id, turn(id)] }]
        end
      end

      def steps(list) = @steps.call(list)
      def told(jobs) = @lock.synchronize { @exhausted.concat(jobs) }
      def ended = @lock.synchronize { @runs.count(&:ended) }

      # What the block raises is noted, too: that the job fails shows nothing where Redis refuses the outcome of the run.
      def noting
        yield
      rescue StandardError => e
        @lock.synchronize { @wrong << "a turn raised #{e.class}: #{e.message}" }
        raise
      end

      private

      def seen(id, batch)
        { id: id, payloads: batch[id], scores: batch.scores(id), retry_count: batch.retry_count(id),
          contexts: batch.contexts(id), fence: batch.fence(id) }
      end

      def turn(id)
        turns = @plan[id] || @plan["*"] || [{}]
        turns[[(@turns[id] += 1), turns.size].min - 1]
      end
    end

    class << self
      attr_accessor :watch
    end

    def self.worker(label, settings)
      Module.new.extend(Seriatim::Worker).extend(Recorder).tap do |worker|
        worker.label = label
        worker.queue_name = Values.bytes(settings.fetch("name", label))
        worker.shards_count = 1
        worker.waits = settings.fetch("retry_in", [60])
        settings.each { |field, value| worker.public_send(:"#{field}=", value) unless %w[name retry_in].include?(field) }
      end
    end

    attr_accessor :label, :waits

    def retry_in(count) = waits[[count, waits.size - 1].min]
    def retries_exhausted(jobs) = Recorder.watch.told(jobs)

    def perform(_payloads, batch)
      watch = Recorder.watch
      run, turns = watch.begin(label, batch)
      watch.noting do
        turns.each { |id, turn| take(watch, batch, id, turn) }
        turns.each { |id, turn| report(batch, id, turn) }
      end
      message = turns.filter_map { |_, turn| turn["raise"] }.first
      raise message if message
    ensure
      run.ended = Time.now.to_f
    end

    private

    def take(watch, batch, id, turn)
      checkpoint(batch, id, turn)
      watch.steps(turn["steps"]) if turn["steps"]
      batch.extend(turn["extend"]) if turn["extend"]
      sleep turn["sleep"] if turn["sleep"]
      batch.checkpoint(id, turn["sent"]) if turn["sent"]
      must_raise(Seriatim::Stale) { [batch.checkpoint(id, turn["stale"]), batch.flush] } if turn["stale"]
    end

    def checkpoint(batch, id, turn)
      must_raise(Seriatim::Invalid) { batch.checkpoint(id, turn["too_many"]) } if turn["too_many"]
      must_raise(Seriatim::Invalid) { batch.snooze(id, 0, payload: "x" * turn["too_long"]) } if turn["too_long"]
      return unless turn["checkpoint"]

      batch.checkpoint(id, turn["checkpoint"])
      batch.flush
    end

    def must_raise(kind)
      yield
      raise "#{kind} is expected"
    rescue kind
      nil
    end

    def report(batch, id, turn)
      snooze(batch, id, turn) if turn["snooze"]
      batch.fail(id, turn["fail"]) if turn["fail"]
      batch.done(id) if turn["done"]
    end

    def snooze(batch, id, turn)
      return batch.snooze(id, turn["snooze"]) unless turn.key?("payload")

      batch.snooze(id, turn["snooze"], payload: turn["payload"])
    end
  end
end
