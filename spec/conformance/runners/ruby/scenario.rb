# frozen_string_literal: true

module Conformance
  # One scenario: its queues, and its steps one after another.
  class Scenario
    KINDS = { Seriatim::Invalid => "INVALID", Seriatim::RedisFull => "FULL", Seriatim::Stale => "STALE", Seriatim::RedisError => "SERVER" }.freeze

    def initialize(file, scenario, redis, report)
      @name = "#{file}: #{scenario["name"]}"
      @scenario = scenario
      @redis = redis
      @report = report
    end

    def run
      prepare
      steps(@scenario["steps"])
      @report.check("#{@name}, check at the end") { @workers.values.flat_map { |worker| worker.actions.check[:findings] }.map(&:inspect) }
    end

    private

    def prepare
      @redis.call("CONFIG", "SET", "maxmemory", "0")
      @redis.flush
      use("spec")
      @handles = {}
      @deliveries = {}
      @values = Values.new(@redis.call("TIME").then { |seconds, micros| seconds.to_f + (micros.to_f / 1e6) })
      @sets = Sets.new(@values)
      @workers = @scenario.fetch("queues", { "q" => {} }).to_h { |label, settings| [label, Recorder.worker(label, settings)] }
    end

    def use(namespace)
      Seriatim.namespace = namespace
      Seriatim.format_error = :message.to_proc # the scenarios name messages
      Seriatim.push_timeout = 50 # a loaded machine may hold a push up
      Seriatim.redis = @redis.url
    end

    def steps(list, where = @name) = list.each_with_index { |step, at| step(step, "#{where}, step #{at + 1} (#{step["do"]})") }

    def step(step, where)
      return sleep(step["seconds"]) if step["do"] == "wait"
      return @report.check(where) { Run.new(step, @workers, @values) { |list| steps(list, where) }.call } if step["do"] == "run"

      @report.check(where) { checked(step) }
    end

    # What is wrong with the step, as a list of texts.
    def checked(step)
      worker = @workers[step.fetch("queue", "q")]
      wrong = public_send(:"do_#{step["do"]}", step, worker)
      step["error"] ? ["no error, but #{step["error"]} was expected"] : Array(wrong)
    rescue Seriatim::Error, Seriatim::Invalid => e
      error(step["error"], e)
    end

    def error(wanted, found)
      return ["#{found.class}: #{found.message}"] unless wanted

      wrong = wanted["says"].reject { |part| found.message.include?(part) }
      wrong << wanted["kind"] unless KINDS[found.class] == wanted["kind"]
      wrong.map { |part| "the error is not #{part}, but #{found.class}: #{found.message}" }
    end

    public

    def do_push(step, worker)
      return jobs_of(step, worker).each { |job| worker.perform_async([job]) } && nil if step["one_by_one"]

      compare_push(step, push(step, worker))
    end

    def do_pipeline(step, _worker)
      futures = raised = nil
      begin
        Seriatim.pipelined { futures = step["pushes"].map { |each| push(each, @workers[each.fetch("queue", "q")]) } }
      rescue Seriatim::Error => e
        raised = e
      end
      wrong = step["pushes"].zip(futures).flat_map { |push, future| compare_future(push, future) }
      raised && step["pushes"].none? { |push| push.key?("error") } ? wrong << "the block raises #{raised.message}" : wrong
    end

    def do_query(step, worker)
      records = step["ids"] ? worker.queries.public_send(step["query"], ids(step)) : range(step, worker.queries)
      @handles[step["keep"]] = records.map { |record| record[:handle] } if step.key?("keep")
      return @values.compare(step["expect_ids"], records.map { |r| r[:id] }, "ids") if step["expect_ids"]
      return ["#{records.size} records, not #{step["expect"].size}: #{records.inspect[0, 300]}"] unless records.size == step["expect"].size

      step["expect"].zip(records).flat_map { |wanted, found| @values.compare_record(wanted, found.merge(scored: true), "record", worker.codec == :raw) }
    end

    def do_explain(step, worker)
      found = worker.queries.explain(Values.bytes(step["id"]))
      %i[job behind dead].each { |key| found[key] = found[key]&.fetch(:state) }
      @values.compare(step["expect"], found, "explanation")
    end

    def do_metrics(step, worker)
      found = worker.metrics
      found = found.merge(shards: found[:shards].size, moves_to: found[:resharding] && found[:resharding][:to])
      @values.compare(step["expect"], found, "metrics")
    end

    def do_action(step, worker)
      arguments = step["ids"] ? [ids(step)] : []
      arguments = [Values.bytes(step["id"]), payload(step["payload"], worker)] if step.key?("id")
      arguments = [handle(step)] if step.key?("handle")
      arguments = [step["shards"]] if step.key?("shards")
      arguments << (@values.start + step["deliver"]) if step.key?("deliver")
      found = worker.actions.public_send(step["action"], *arguments)
      found = { true => 1, false => 0 }.fetch(found, found)
      step.key?("expect") ? @values.compare(step["expect"], found, "answer") : []
    end

    def do_declare(step, _worker) = Recorder.worker("declared", step["settings"]).metrics && nil
    def do_namespace(step, _worker) = use(step["name"]) && nil

    def do_redis(step, _worker)
      found = @redis.call(*step["command"])
      step.key?("expect") ? @values.compare(step["expect"].to_s, found, "answer") : []
    end

    def do_pop(step, _worker)
      labels = step.fetch("queues", @workers.keys)
      weights = step["weights"] && labels.map { |label| @workers.fetch(label) }.zip(step["weights"]).to_h
      options = step.slice("ttr", "max").transform_keys(&:to_sym)
      found = Seriatim.pop(labels.map { |label| @workers.fetch(label) }, wait: step.fetch("wait", 0), weights: weights, **options)
      @deliveries[step["keep"]] = found
      step.key?("expect") ? compare_delivery(step["expect"], found) : []
    end

    def do_popped(step, worker)
      delivery = @deliveries.fetch(step["delivery"])
      delivery = Seriatim.delivery(delivery.token) if step["by"] == "token"
      case step["report"]
      when "fail" then delivery.fail(step["text"], retry_in: step["seconds"])
      when "extend" then delivery.extend(step["seconds"])
      when "checkpoint" then delivery.checkpoint(step["count"])
      when "snooze" then delivery.snooze(step["seconds"], **(step.key?("payload") ? { payload: payload(step["payload"], worker) } : {}))
      else delivery.public_send(step["report"])
      end
      nil
    end

    def do_ick(step, _worker) = @sets.run(step)

    def do_keys(step, _worker) = @values.compare(step["expect"], Conformance.keys(@redis), "keys")

    private

    def jobs_of(step, worker) = step["jobs"].flat_map { |job| copies(job, worker) }

    def push(step, worker) = worker.perform_async(jobs_of(step, worker), handle: step.fetch("handle", false))

    def compare_push(step, result)
      @handles[step["keep"]] = result.handles
      places = result.handles.map { |handle| handle && result.handles.index(handle) }
      @values.compare(step.fetch("expect", {}), result.to_h.merge(handles: places), "answer")
    end

    def compare_future(push, future)
      result = future.value
      push["error"] ? ["no error, but #{push["error"]} was expected"] : compare_push(push, result)
    rescue Seriatim::Error => e
      error(push["error"], e)
    end

    def compare_delivery(wanted, found)
      return @values.compare(wanted, found&.id, "popped") unless wanted && found

      label, worker = @workers.find { |_label, each| each.queue_name == found.queue }
      seen = %i[id payloads scores contexts deliveries retry_count error more].to_h { |field| [field, found.public_send(field)] }
      @values.compare_record(wanted, seen.merge(queue: label, count: found.payloads.size), "delivery", worker.codec == :raw)
    end

    def handle(step) = @handles.key?(step["handle"]) ? @handles[step["handle"]].fetch(step.fetch("place", 0)) : step["handle"]

    def ids(step) = step["ids"].map { |id| Values.bytes(id) }

    def payload(value, worker) = worker.codec == :raw ? Values.bytes(value) : value

    def copies(job, worker)
      Array.new(job.fetch("times", 1)) { |n| copy(job, n, worker) }
    end

    def copy(job, number, worker)
      copy = job.except("at", "deliver", "times", "number")
      copy["id"] = Values.bytes(copy["id"]) if copy.key?("id")
      copy["payload"] = payload(copy["payload"], worker) if copy.key?("payload")
      copy["perform_in"] = @values.start + job["at"] if job.key?("at")
      copy["deliver_at"] = @values.start + job["deliver"] if job.key?("deliver")
      %w[score perform_in delay deliver_at deliver_in].each { |key| copy[key] = Values.number(copy[key]) if copy.key?(key) }
      copy["id"] += number.to_s if %w[id both].include?(job["number"])
      copy["payload"] = number if %w[payload both].include?(job["number"])
      copy
    end

    def range(step, queries)
      bounds = [bound(step["min"]), bound(step["max"])].compact
      bounds.reverse! if step["query"].include?("rev_")
      options = step.key?("limit") ? { limit: step["limit"] } : {}
      options[:id] = Values.bytes(step["id"]) if step.key?("id")
      queries.public_send(step["query"], *bounds, **options)
    end

    def bound(value) = value.is_a?(Hash) ? @values.start + value["at"] : value
  end
end
