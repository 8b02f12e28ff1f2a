# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../support/languages"

# Delayed events in several processes of a language, on a Redis that goes away; the processes are events/app.*.
RSpec.describe "Delayed events" do
  include CrashKit

  EVENTS = Figures.count(3_000, 100_000)
  PROCESSES = Figures.count(3, 4)
  # Events a second of delayedQueue, however many processes it has: one dispatcher makes six round trips of 0.5 ms an event,
  # and pauses for half a second after each hundred.
  THEIRS = 125
  COMMANDS = 3 # of an event, at most

  let(:events) { Seriatim.events("shop") }
  let(:trace) { File.join(kit.folder, "trace") }
  let(:gate) { File.join(kit.folder, "gate") }

  def start(language, name)
    commands = Language::ALL.fetch(language)
    app = "#{__dir__}/events/app.#{{ "ruby" => "rb", "python" => "py", "lua" => "lua" }.fetch(language)}"
    environment = { **commands.variables, "REDIS_URL" => kit.redis.url, "NAME" => name, "TRACE" => trace, "GATE" => gate }
    kit.start([*commands.server[0..-2], app], environment)
  end

  # @return [Hash{String=>Array<String>}] the events that began or ended, by process
  def traced(what)
    lines = File.exist?(trace) ? File.readlines(trace, chomp: true).map(&:split) : []
    lines.select { |_, step, _| step == what }.group_by(&:first).transform_values { |found| found.map(&:last) }
  end

  def ended = traced("end").values.flatten

  # Of new events: none has begun, and those that begin wait.
  def close_gate
    File.delete(trace) if File.exist?(trace)
    File.delete(gate) if File.exist?(gate)
  end

  def open_gate = File.write(gate, "")

  def eventually(&condition) = kit.eventually(120, -> { kit.processes.map(&:log).join + traced("begin").inspect[0, 2000] }, &condition)

  def all_ended(ids)
    eventually { ended.size >= ids.size }
    expect(ended.tally).to eq(ids.to_h { |id| [id.to_s, 1] })
  end

  def enqueue(type, ids) = ids.each { |id| events.enqueue(type, id: id, event: id) }

  def takes_other_shards(language)
    ids = [*1..20]
    enqueue("Slow", ids)
    first = start(language, "p0")
    eventually { traced("begin").key?("p0") }
    second = start(language, "p1")
    eventually { traced("begin").key?("p1") }
    expect(traced("begin").values.map(&:size)).to eq([1, 1])
    open_gate
    all_ended(ids)
    [first, second]
  end

  # An id that runs keeps its shard where it is, so all processes must have shards before the gate is closed.
  def start_the_others(language, processes)
    names = Array.new(PROCESSES) { |number| "p#{number}" }
    names.drop(processes.size).each { |name| processes << start(language, name) }
    eventually { enqueue("Paid", [*1..20]) && traced("end").keys.sort == names }
    drained
  end

  # Commands of the processes: nothing else calls scripts while it is counted.
  def scripts_called = kit.redis.call("INFO", "commandstats").scan(/^cmdstat_eval(?:sha)?:calls=(\d+)/).flatten.sum(&:to_i)

  def drained = eventually { events.worker("Paid").metrics.values_at(:length, :busy).sum.zero? }

  def shares(language, processes)
    start_the_others(language, processes)
    close_gate
    ids = [*1..EVENTS]
    enqueue("Paid", ids)
    eventually { traced("begin").size == PROCESSES }
    began = Journal.now
    before = scripts_called
    open_gate
    eventually { File.foreach(trace).count { |line| line.include?(" end ") } >= EVENTS }
    rate = EVENTS / (Journal.now - began)
    commands = (scripts_called - before) / EVENTS.to_f
    drained
    all_ended(ids)
    Figures.note("F1", "delayed events a second, #{PROCESSES} processes, #{language}", rate.round)
    Figures.note("F1", "commands of a delayed event, #{PROCESSES} processes, #{language}", commands.round(2))
    expect(commands).to be < COMMANDS
    expect(rate).to be > THEIRS if Figures::SOAK # on a quiet machine it is more than four times as much: see the figure
  end

  def survives_poison
    File.delete(trace)
    raw = Module.new.extend(Seriatim::Worker)
    raw.queue_name = "shop:Paid"
    raw.codec = :raw
    raw.perform_async([{ id: "poison", payload: "{" }])
    enqueue("Paid", [*1..20])
    all_ended([*1..20])
    dead = eventually { raw.queries.morgue_fetch(["poison"]).first }
    expect(dead[:error]).to include("undecodable payload")
  end

  def survives_an_outage(language, processes)
    File.delete(trace)
    kit.redis.stop
    sleep Figures.count(0.5, 10)
    kit.redis.start
    began = Journal.now
    enqueue("Paid", [*1..60])
    all_ended([*1..60])
    elapsed = Journal.now - began
    expect(traced("end").size).to eq(processes.size)
    Figures.note("F6", "delayed events: seconds from Redis' return to the end of 60, #{language}", elapsed.round(2))
    expect(elapsed).to be < 60 # 1 on a quiet machine; who is not connected again waits for ever
  end

  def survives_a_kill_in_the_last_attempt(processes)
    close_gate
    enqueue("Last", [1])
    eventually { traced("begin").any? }
    processes[traced("begin").keys.first[/\d+/].to_i].kill
    open_gate
    eventually { ended.any? || events.worker("Last").queries.morgue_fetch([1]).any? }
  end

  def enqueue_with_contexts(type, count)
    (1..count).map do |id|
      events.enqueue(type, id: id, event: id, context: { "of" => "#{type}#{id}" })
      "#{type}.#{id}.#{type}#{id}"
    end
  end

  Language::ALL.each_key do |language|
    it "R-EVENT-12, R-EVENT-13, R-EVENT-14, R-EVENT-15, R-EVENT-16 in #{language}: are shared, survive poison, an outage and a kill" do
      kit
      processes = takes_other_shards(language)
      shares(language, processes)
      survives_poison
      survives_an_outage(language, processes)
      survives_a_kill_in_the_last_attempt(processes)
      expect(processes.select(&:alive?).map(&:stop)).to all(eq(0))
      expect(%w[Paid Slow Last].flat_map { |type| events.worker(type).actions.check[:findings] }).to eq([])
    end

    it "R-EVENT-3, R-EVENT-5, R-EVENT-11 in #{language}: wait for a handler, keep their contexts and run as often as their type says" do
      kit
      each = Figures.count(40, 334)
      once = %w[One Two Three].flat_map { |type| enqueue_with_contexts(type, each) }
      ten_times = enqueue_with_contexts("Fails", 20)
      sleep Figures.count(1, 30)
      waiting = %w[One Two Three].map { |type| events.worker(type).metrics.values_at(:length, :retries, :processed) }
      expect(waiting).to eq([[each, 0, 0]] * 3)
      process = start(language, "p0")
      eventually { events.worker("Fails").metrics[:morgue_length] == 20 && traced("ran").values.flatten.size >= once.size + 200 }
      expect(process.stop).to eq(0)
      expect(traced("ran").fetch("p0").tally).to eq(once.to_h { |event| [event, 1] }.merge(ten_times.to_h { |event| [event, 10] }))
    end
  end
end
