# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/all_languages"
require_relative "kit/storm"
require_relative "kit/task_checker"
require_relative "kit/task_points"

# Queues of which each payload is a job of its own: checkpoints, snoozes and payloads for later, in servers of every language.
RSpec.describe "Payloads that are done by themselves" do
  include AllLanguages

  SETTINGS = { batch_size: 2, max_retry_count: 1_000_000, back_off: 0.02, fold: "list" }.freeze

  def expect_tasks_well
    verdict = TaskChecker.new(kit.journal.lines)
    expect(verdict.faults).to eq({})
    expect(kit.leftovers).to eq([])
    verdict
  end

  def figures(points, verdict)
    Figures.note("F1", "SIGKILLs round checkpoints, snoozes and moves", points.died.values.sum)
    TaskPoints::POINTS.each { |point| Figures.note("F1", "SIGKILLs of tasks: #{point}", points.died[point]) }
    Figures.note("F1", "SIGKILLs of tasks: in the midst of a move", points.amid)
    Figures.note("F1", "SIGKILLs of tasks: lost, reordered, repeated, undone",
                 [verdict.lost, verdict.reordered, verdict.faults.fetch(:repeated, []), verdict.undone].map(&:size).join(", "))
    Figures.note("F1", "SIGKILLs of tasks: most payloads of an id in flight at a kill", verdict.in_flight)
  end

  it "F1, R-CRASH-6 workers of all languages are killed round checkpoints, snoozes and moves of scheduled payloads", limit: Figures.count(600, 7_200) do
    lanes = 12
    kit.queue("Tasks", shards_count: lanes, **SETTINGS)
    kit.watch_leases
    points = TaskPoints.new(kit, "Tasks", lanes: lanes)
    languages = (Kit::LANGUAGES * 3).shuffle(random: kit.random)
    Storm.new(kit, "Tasks").during(pushes: false) { points.run(Figures.count(6, 200), languages) }
    last = Kit::LANGUAGES.map { |language| kit.worker(language, lease: 1) }
    kit.drain(Figures.count(150, 300))
    last.each { |worker| expect(worker.stop).to eq(0) }
    verdict = expect_tasks_well
    figures(points, verdict)
    expect(points.missed).to eq([])
    expect(points.amid).to be > 0
    expect(verdict.in_flight).to be_between(1, 2) # the one that ran, and the one before it, whose checkpoint was not waited for
    expect(kit["Tasks"].metrics[:morgue_length]).to eq(0)
  end
  it "R-SNOOZE-1 no snooze is charged and nothing runs twice where no worker dies" do
    kit.queue("Snoozes", shards_count: 4, **SETTINGS)
    workers = Kit::LANGUAGES.map { |language| kit.worker(language, lease: 10) }
    kit.push("Snoozes", (1..40).map { |number| "id#{number}" }, (1..6).to_a, task: "flush", snooze: 0.01)
    kit.drain
    workers.each { |worker| expect(worker.stop).to eq(0) }
    verdict = expect_tasks_well
    expect(verdict.strict_faults).to eq({})
    expect(kit["Snoozes"].metrics).to include(failed: 0)
  end
  # ---- What adapters for tasks need: pushed, run and retried in each language, by real processes

  # Yields each language with a queue and a server of its own and an agent that pushes.
  def in_each_language(name, **settings)
    languages = AllLanguages::LANGUAGES.to_h { |language| [language, "#{name}-#{language}"] }
    languages.each do |language, queue|
      kit.queue(queue, shards_count: 1, fold: "list", **settings)
      kit.worker(language, queue: queue, lease: 10).wait_until_started
    end
    at_once(languages) { |language, queue| yield queue, agent(language, queue.to_sym => { shards_count: 1, fold: "list" }) }
  end

  # The tasks of a queue in the order in which they began.
  def tasks_of(queue) = kit.journal.lines.select { |line| line.kind == "task" && line.queue == queue }.flat_map(&:numbers)

  def push_tasks(agent, queue, *payloads)
    agent.push(queue, *payloads.each_with_index.map { |payload, at| { id: "1", payload: { n: at + 1, task: "sent", **payload } } })
  end

  it "R-CHECKPOINT-1 of three tasks of an id the second fails: the first does not run again, and the third waits" do
    in_each_language("Fails", back_off: 600) do |queue, agent|
      works = File.join(kit.folder, queue)
      push_tasks(agent, queue, {}, { fail: works }, {})
      kit.eventually { kit.journal.lines.any? { |line| line.kind == "fail" && line.queue == queue } }
      FileUtils.touch(works)
      kit.eventually { agent.action(queue, "perform_now", ["1"]) == 1 } # once the failure has come to Redis
      kit.eventually { kit.journal.ends(queue).any? }
      expect(tasks_of(queue)).to eq([1, 2, 2, 3]), queue
    end
    expect(AllLanguages::LANGUAGES.map { |language| kit["Fails-#{language}"].metrics.values_at(:processed, :failed) }).to all(eq([1, 1]))
  end

  it "R-SNOOZE-3 a task that comes again by a snooze runs before the others of its id" do
    in_each_language("Again") do |queue, agent|
      push_tasks(agent, queue, { snooze: 0.05 }, {}, {})
      kit.eventually { kit.journal.ends(queue).any? }
      expect(tasks_of(queue)).to eq([1, 1, 2, 3]), queue
    end
  end

  it "R-DELIVER-1 a task for later does not delay another task of its id, nor comes early with it" do
    in_each_language("Later") do |queue, agent|
      before = Journal.now
      agent.push(queue, { id: "1", payload: { n: 2, task: "sent" }, deliver_in: 10 }, { id: "1", payload: { n: 1, task: "sent" } })
      kit.eventually { kit.journal.ends(queue).size == 2 }
      first, second = kit.journal.starts(queue)
      expect([first, second].map(&:numbers)).to eq([[1], [2]]), queue
      expect(first.time).to be < before + 10, queue
      expect(second.time).to be >= before + 10 - 0.002, queue # the journal of Lua has milliseconds
    end
  end
end
