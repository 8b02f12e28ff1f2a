# frozen_string_literal: true

module Conformance
  # The step run: a server from its start to its stop, and what its workers saw meanwhile.
  class Run
    def initialize(step, workers, values, &steps)
      @step = step
      @workers = step.key?("queues") ? workers.slice(*step["queues"]) : workers
      @values = values
      @expect = step.fetch("expect", {})
      @watch = Recorder.watch = Recorder::Watch.new(step.fetch("plan", {}), &steps)
    end

    # @return [Array<String>] what was wrong
    def call
      server = Seriatim::Server.new(workers: @workers.values.uniq(&:queue_name), threads: @step.fetch("threads", 1)).start
      wrong = wait
      server.stop(30) or wrong << "it did not stop in time"
      @runs = @watch.runs.sort_by.with_index { |run, at| [run.began, at] }
      wrong + @watch.wrong + exclusive + seen
    ensure
      server&.stop(0)
    end

    private

    def wait
      deadline = monotonic + @step.fetch("limit", 60)
      sleep 0.005 until (ended = over?) || monotonic > deadline
      return [] if ended

      ["not over within its limit, after #{@watch.ended} runs, with #{@workers.values.map { |w| w.metrics.except(:shards) }}"]
    end

    def over?
      wanted = @step.fetch("until", "idle")
      return false if @watch.exhausted.size < @expect.fetch("exhausted", []).size
      return @watch.ended >= wanted if wanted.is_a?(Integer)

      Array.new(2) { @workers.values.all? { |worker| quiet?(worker.metrics, wanted) } }.all?
    end

    def quiet?(metrics, wanted)
      metrics[:busy].zero? && metrics[:resharding].nil? && (wanted == "empty" ? metrics[:length].zero? : metrics[:lag].zero?)
    end

    def exclusive
      by_id.flat_map do |(_queue, id), runs|
        runs.each_cons(2).flat_map { |before, after| pair(id, *before, *after) }
      end
    end

    def pair(id, before, job_before, after, job_after)
      wrong = []
      wrong << "the fence of #{id} fell" unless job_after[:fence] > job_before[:fence]
      wrong << "two runs of #{id} overlap" unless @step["overrun"] || before.ended <= after.began
      wrong
    end

    # [queue, id] => [[run, job], ...]
    def by_id
      @runs.flat_map { |run| run.jobs.map { |job| [run, job] } }.group_by { |run, job| [@workers[run.queue].queue_name, job[:id]] }
    end

    def seen
      wrong = @expect.key?("runs") ? runs : []
      wrong += @values.compare(@expect["count"], @runs.size, "count") if @expect.key?("count")
      wrong += @values.compare(@expect["at_once"], at_once, "at_once") if @expect.key?("at_once")
      wrong += @expect.fetch("numbers", {}).flat_map { |id, count| numbers(id, count) }
      wrong + exhausted
    end

    def runs
      found = @expect["any_order"] ? sorted : @runs
      wanted = @expect["runs"]
      return ["#{found.size} runs, not #{wanted.size}: #{found.map { |run| run.jobs.map { |job| job.slice(:id, :payloads) } }}"] unless found.size == wanted.size

      wanted.each_index.flat_map { |at| one(wanted[at], found[at], at.zero? ? nil : found[at - 1], "runs[#{at}]") }
    end

    def sorted
      @runs.each { |run| run.jobs = run.jobs.sort_by { |job| job[:id].b } }.sort_by.with_index { |run, at| [run.jobs.first[:id].b, at] }
    end

    def one(wanted, run, before, where)
      facts = { queue: run.queue, size: run.jobs.size, began: run.began, after: before && run.began - before.ended }
      wrong = @values.compare(wanted.except("jobs"), facts, where)
      return wrong unless wanted.key?("jobs")
      return wrong << "#{where} has #{run.jobs.size} jobs: #{run.jobs}" unless wanted["jobs"].size == run.jobs.size

      raw = @workers[run.queue].codec == :raw
      wrong + wanted["jobs"].zip(run.jobs).flat_map { |job, found| @values.compare_record(job, found, "#{where} #{found[:id]}", raw) }
    end

    def numbers(id, count)
      payloads = @runs.flat_map { |run| run.jobs.select { |job| job[:id] == id }.flat_map { |job| job[:payloads] } }
      payloads == Array.new(count) { |n| n } ? [] : ["the payloads of #{id} are #{payloads.inspect[0, 300]}"]
    end

    def at_once
      @runs.map { |run| @runs.count { |other| other.began <= run.began && other.ended > run.began } }.max || 0
    end

    def exhausted
      return [] unless @expect.key?("exhausted")

      told = @watch.exhausted.map { |job| job.merge(scored: true) }
      return ["retries_exhausted was told #{told}"] unless told.size == @expect["exhausted"].size

      @expect["exhausted"].zip(told).flat_map { |wanted, found| @values.compare_record(wanted, found, "exhausted", false) }
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
