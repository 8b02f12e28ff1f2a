# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/mutant"
require_relative "kit/proxy"
require_relative "kit/storm"
require_relative "kit/task_checker"
require_relative "kit/transactions"

# Controls: each example breaks a rule on purpose. If the checker did not fail here, it would miss the same fault in the other examples.
RSpec.describe "The checker fails" do
  include CrashKit

  # Clocks that differ by more than half a lease look like a clock of Redis that jumps, for which nobody loses a shard.
  BLIND = ["if not last or math.abs(now - last) > shortest / 2 then", "if false then"].freeze

  # The faults that the checker found.
  def faults_of(control, fault)
    found = kit.verdict.faults
    Figures.note(fault, "control: #{control}", found.map { |name, (count, *)| "#{count} #{name}" }.join(", "))
    found
  end

  # @return [Proxy, Queue] a way to Redis on which the first call of a script that the mutant has changed, and all that its process sends
  #   behind it, waits until something is put into the queue
  def way_that_holds_the_first_call
    released = Queue.new
    held = false
    hold = lambda do |_request|
      released.pop unless held
      held = true
      false
    end
    proxy = Proxy.new(kit.redis.socket)
    proxy.rule = Proxy::Rule.new(step: Proxy::Step.new(script: nil, moment: :before, only: hold))
    [proxy, released]
  end

  def ids(count) = (1..count).map { |number| "id#{number}" }

  it "F2 when settles do not check the fence" do
    program = Mutant.build("worker", "scripts/server/settle.lua" => [
                             ["if lease ~= tonumber(ARGV[2]) then", "if false then"],
                             ["if is_open(run, mine) then return digit_of(run) end", "if true then return digit_of(run or mine) end"]
                           ])
    kit.queue("Unfenced", shards_count: 1)
    kit.push("Unfenced", ["id"], 1)
    kit.push("Unfenced", ["long"], 1, sleep: 60) # of the same claim: so the other one is settled alone, by its id
    proxy, released = way_that_holds_the_first_call
    late = kit.worker("c", lease: 0.4, program: program, url: proxy.url)
    kit.eventually { kit.journal.ends.size == 1 }
    kit.push("Unfenced", ["id"], 2, sleep: 60)
    other = kit.worker("c", lease: 0.4, program: program)
    kit.eventually { kit.journal.starts(nil, "id").last.numbers.include?(2) }
    released << true
    kit.eventually { kit.backlog == 1 } # the late settle has ended the run of the other worker, which still runs
    [late, other].each(&:kill)
    faults_of("no fence check in settle", "F2")
    expect(kit.verdict.lost).to include("Unfenced/id 2")
  ensure
    released&.push(true)
    proxy&.stop
  end

  # The first message that says what a push has claimed is lost; those of later pushes show it. Returns when all runs have ended but
  # those that are lost.
  def lose_a_message(queue, program, lost:)
    kit.queue(queue, shards_count: 1)
    proxy = Proxy.new(kit.redis.socket)
    proxy.rule = Proxy::Rule.new(step: Proxy::Step.new(script: nil, moment: :message, signal: 0))
    worker = kit.worker("c", queue: queue, program: program, url: proxy.url, poll: 60, nodes: 1, lease: 8) # a late heartbeat finds what was lost
    pushed = 0
    push = -> { kit.push(queue, ["id#{pushed += 1}"], 1) }
    kit.eventually { push.call && proxy.steps.any? }
    3.times { push.call }
    kit.eventually { kit.journal.ends(queue).size == pushed - lost }
    sleep 0.3
    worker.kill
  ensure
    proxy&.stop
  end

  it "F1 when a worker takes what a push has claimed though it has missed what was claimed before" do
    lose_a_message("Heard", nil, lost: 0)
    expect(kit.verdict.faults).to eq({})
    program = Mutant.build("worker", "src/node/claim.c" => [["read_fence(text + 8) != s->seen) {", "0) {"]])
    lose_a_message("Missed", program, lost: 1)
    expect(faults_of("a worker takes what a push has claimed without a look at what was claimed before", "F1").keys).to eq([:lost])
  end

  it "F13 when the clients' clocks decide" do
    ahead = Mutant.build("worker", "scripts/lib/prelude.lua" => [["+ clock[2]\n", "+ clock[2] + 2000000\n"]],
                                   "scripts/server/heartbeat.lua" => [["math.floor(clock[2] / 1000)", "math.floor(clock[2] / 1000) + 2000"], BLIND])
    kit.queue("Clocks", shards_count: 16, batch_size: 2, back_off: 0.05, max_retry_count: 1_000)
    kit.push("Clocks", ids(16), 1, sleep: 60)
    kit.worker("c", lease: 0.4, threads: 16, nodes: 1)
    kit.eventually { kit.journal.starts.size == 16 }
    kit.worker("c", lease: 0.4, threads: 16, nodes: 1, program: ahead)
    kit.eventually { kit.verdict.concurrent.any? }
    expect(faults_of("clients' clocks, one of two 2 s ahead", "F13").keys).to include(:concurrent)
  end

  it "F4 when a push has no token and its answer is cut off" do
    program = Mutant.build("producer", "scripts/lib/push_token.lua" => [["if token then\n", "if false then\n"]])
    kit.queue("Untold", shards_count: 4, fold: "list")
    proxy = Proxy.new(kit.redis.socket)
    producer = kit.producer("c", "Untold", ids(10), count: 6, url: proxy.url, program: program)
    while producer.alive?
      before = File.size(kit.journal.path)
      proxy.cut_next(down: kit.random.rand(8))
      sleep 0.002 while producer.alive? && File.size(kit.journal.path) == before
    end
    proxy.stop
    expect(producer.status).to be_success, producer.log
    kit.worker("c")
    kit.drain
    expect(faults_of("pushes without a token, answers cut off", "F4").keys).to include(:reordered)
  end

  it "F3 when EVALSHA stands in a MULTI and scripts are forgotten" do
    transactions = Transactions.new(kit.redis.socket)
    kit.queue("Multi", shards_count: 4)
    storm = Storm.new(kit, "Multi")
    storm.during(pushes: false) do
      producer = kit.producer("c", "Multi", ids(10), count: 60, pause: 0.02, url: transactions.url)
      expect(producer.wait(60)).to eq(0), producer.log
    end
    transactions.stop
    kit.worker("c")
    kit.drain
    expect(faults_of("EVALSHA in a MULTI, #{storm.flushes} times SCRIPT FLUSH", "F3").keys).to include(:lost)
  end

  # ---- payloads that are done by themselves

  TASKS = { shards_count: 4, batch_size: 2, fold: "list", back_off: 0.02, max_retry_count: 1_000_000 }.freeze

  def faults_of_tasks(control, strict: false)
    verdict = TaskChecker.new(kit.journal.lines)
    found = strict ? verdict.strict_faults : verdict.faults
    Figures.note("F1", "control: #{control}", found.map { |name, (count, *)| "#{count} #{name}" }.join(", "))
    found
  end

  # Is it a checkpoint that its worker takes for confirmed, though Redis has not seen it? Waits until it does.
  def believed?(request)
    return false unless request.include?("\r\ncheckpoint\r\n")

    1000.times { kit.journal.lines.any? { |line| line.kind == "confirmed" } ? break : sleep(0.01) }
    true
  end

  it "F1 when a checkpoint is believed before it is confirmed" do
    program = Mutant.build("worker", "src/node/checkpoint.c" => [["if (c && c->confirmed < c->wanted)\n", "if (0)\n"]])
    kit.queue("Tasks", **TASKS)
    kit.push("Tasks", ["id"], 1, task: "flush")
    kit.push("Tasks", ["id"], 2, task: "flush", sleep: 5) # so that the run does not end before the checkpoint is sent
    proxy = Proxy.new(kit.redis.socket)
    proxy.rule = Proxy::Rule.new(step: Proxy::Step.new(script: "settle", moment: :before, only: method(:believed?)))
    dying = kit.worker("c", lease: 0.4, program: program, url: proxy.url)
    expect(dying.wait).to be_nil
    kit.worker("c")
    kit.drain
    expect(faults_of_tasks("checkpoints believed before they are confirmed").keys).to include(:undone)
  ensure
    proxy&.stop
  end

  it "F1 when scheduled payloads may be moved twice" do
    program = Mutant.build("worker", "scripts/lib/move_scheduled.lua" => [["  unschedule(group.id, group.stamps)", "  if not call('SET', SCHEDULED .. 'once', '', 'NX') then unschedule(group.id, group.stamps) end"]])
    kit.queue("Twice", **TASKS)
    # The mutant leaves the first payload scheduled when it moves it, so that it moves it again.
    kit["Twice"].perform_async(ids(10).map { |id| { id: id, payload: { n: 1, task: "flush" }, deliver_in: 0.5 } })
    kit.journal.pushed_to("Twice", ids(10), [1])
    kit.worker("c", program: program)
    kit.eventually { kit["Twice"].metrics.values_at(:scheduled, :length, :busy).sum.zero? }
    expect(faults_of_tasks("scheduled payloads moved twice").keys).to include(:undone).or include(:repeated)
  end

  it "F1 when a snooze charges a retry" do
    replaced = "if action ~= '' then replace(id, r, unpack_struct('>d', action), text) end"
    program = Mutant.build("worker", "scripts/server/settle.lua" => [[replaced, "r.retry = r.retry + 1 #{replaced}"]])
    kit.queue("Snoozes", **TASKS)
    kit.push("Snoozes", ids(20), [1, 2], task: "flush", snooze: 0.01)
    kit.worker("c", program: program)
    kit.drain
    expect(faults_of_tasks("snoozes that charge a retry", strict: true).keys).to eq([:charged])
  end

  it "F7 when a claim begins with a write that needs memory" do
    greedy = Mutant.build("worker", "scripts/lib/change.lua" => [["open_for_writing() call('ZREM', PREFIX .. 'due', '')",
                                                              "open_for_writing() call('SETRANGE', PREFIX .. 'x', 0, 'x')"]])
    kit.queue("Full", shards_count: 4)
    kit.push("Full", ids(200), 1)
    kit.redis.call("CONFIG", "SET", "maxmemory", "1")
    worker = kit.worker("c", lease: 0.5, program: greedy)
    sleep 3
    expect(faults_of("a claim's first write needs memory, Redis full", "F7").keys).to eq([:lost])

    worker.kill
    kit.worker("c", lease: 0.5)
    kit.drain
    expect(kit.verdict.faults).to eq({})
  end
end
