# frozen_string_literal: true

require_relative "spec_helper"
require_relative "../interop/agents"

# Jobs that kill their process, operators who run every action under load, ids that get many pushes or always fail.
RSpec.describe "Jobs and operators" do
  include CrashKit

  # ---- F8

  def app(language, name, **variables)
    commands = Language::ALL.fetch(language)
    *server, _, _ = commands.server
    file = File.expand_path("kit/apps/#{name}.#{{ "ruby" => "rb", "python" => "py", "lua" => "lua" }.fetch(language)}", __dir__)
    kit.start([*server, "-r", file, "-c", "2"], { **commands.variables, "REDIS_URL" => kit.redis.url, **variables })
  end

  # Starts the server as often as it dies, until the morgue has the id. @return [Integer] deaths
  def run_until_buried(language, variables)
    deaths = 0
    process = app(language, "poison", **variables)
    kit.eventually(200, -> { "not in the morgue: #{kit["Poison"].metrics.except(:shards)}\n#{process.log[-1500..]}" }) do
      unless process.alive?
        deaths += 1
        process = app(language, "poison", **variables)
      end
      kit["Poison"].metrics[:morgue_length] == 1
    end
    kit.drain
    expect(process.stop).to eq(0)
    deaths
  end

  Language::ALL.each_key do |language|
    it "F8 a job that aborts its process reaches the morgue, its neighbours are done and not charged (#{language})", limit: 1500 do
      retries = Figures.count(1, 5)
      starts = File.join(kit.folder, "starts")
      kit.queue("Poison", shards_count: 4)
      kit["Poison"].perform_async([*(1..500), "bad", *(501..1000)].map { |id| { id: id, payload: { n: 1 } } })
      deaths = run_until_buried(language, "APPEND" => starts, "RETRIES" => retries.to_s)

      lines = File.readlines(starts, chomp: true).map(&:split)
      bad, others = lines.partition { |id, _| id == "bad" }
      expect(bad.size).to be <= retries + 3
      expect(deaths).to eq(bad.size)
      expect(others.map(&:first).uniq.size).to eq(1000)
      expect(others.map(&:last).uniq).to eq(["-1"])
      expect(kit["Poison"].queries.morgue_fetch(["bad"]).first).to include(error: /worker died/)
      expect(kit["Poison"].actions.check[:findings]).to eq([])
      Figures.note("F8", "starts of a job that aborts, max_retry_count #{retries} (#{language})", bad.size)
    end
  end

  # ---- retries_exhausted

  Language::ALL.each_key do |language|
    it "the next server calls retries_exhausted for what a killed process was not told (#{language})" do
      told = File.join(kit.folder, "told")
      kit.queue("Hooks", shards_count: 1)
      kit["Hooks"].perform_async([{ id: "a", payload: 1 }, { id: "kills", payload: 2 }, { id: "b", payload: 3 }])
      first = app(language, "hooks", "APPEND" => told)
      kit.eventually(60, -> { first.log[-1500..] }) { !first.alive? }
      expect(kit["Hooks"].metrics).to include(morgue_length: 3, length: 0)
      second = app(language, "hooks", "APPEND" => told)
      kit.eventually(60, -> { second.log[-1500..] }) { File.exist?(told) && File.readlines(told).map { |line| line.split.first }.uniq.size == 3 }
      sleep 1
      expect(second.stop).to eq(0)
      expect(File.readlines(told, chomp: true).map { |line| line.split[1, 2] }).to all(eq(%w[1 1]))
      expect(File.readlines(told, chomp: true)).to all(include("for good"))
      expect(kit["Hooks"].actions.check[:findings]).to eq([])
    end
  end

  # ---- F31

  BUTTONS = [%w[perform_all_jobs_now], %w[kill_all_failed_jobs], %w[delete_all_failed_jobs], %w[morgue_queue_up_all_jobs],
             %w[morgue_delete_all_jobs], %w[pause], %w[resume], %w[park ids], %w[unpark ids], %w[unpark_all], %w[perform_now ids], %w[delete ids],
             %w[morgue_queue_up ids], %w[morgue_delete ids], %w[drop_payload fetch], %w[morgue_drop_payload morgue_fetch]].freeze
  LOSSLESS = BUTTONS.reject { |name, _| name.match?(/delete|drop/) }.freeze

  # The arguments of an action: none, some ids, or a payload that a query has just returned; nil if the query found no payload.
  def pressed_on(agent, queue, what, ids, random)
    some = ids.sample(5, random: random)
    return what ? [some] : [] unless what&.end_with?("fetch")

    record = agent.query(queue, what, some).sample(random: random)
    record && [record["id"], record["payloads"].sample(random: random).first]
  end

  # One operator: presses buttons until the time is over. @return [Hash] how often each
  def press(agent, queue, buttons, ids, random, deadline)
    pressed = Hash.new(0)
    until Journal.now > deadline
      name, on = buttons.sample(random: random)
      arguments = pressed_on(agent, queue, on, ids, random) or next
      agent.action(queue, name, *arguments)
      agent.action(queue, "resume") if name == "pause"
      pressed[name] += 1
    end
    pressed
  end

  def press_everywhere(queue, buttons, ids, seconds)
    languages = [*Language::ALL.keys, "ruby"]
    threads = languages.each_with_index.map do |language, number|
      agent = AgentProcess.new(language, kit.redis.url, File.join(kit.folder, "operator#{number}"))
      agent.worker(queue, **storm_settings)
      random = Random.new(kit.seed + number)
      Thread.new { press(agent, queue, buttons, ids, random, Journal.now + seconds).tap { agent.close } }
    end
    threads.map(&:value).reduce { |all, one| all.merge(one) { |_, a, b| a + b } }
  end

  def storm_settings = { shards_count: 6, batch_size: 3, max_retry_count: 100, fold: "list" }

  def storm(queue, ids)
    kit.queue(queue, **storm_settings, back_off: 0.05)
    flag = File.join(kit.folder, "over")
    workers = Kit::LANGUAGES.map { |language| kit.worker(language, queue: queue, lease: 20) }.each(&:wait_until_started)
    producers = %w[ruby python lua].each_with_index.map do |language, number|
      kit.producer(language, queue, ids.each_slice(ids.size / 3).to_a[number], pause: 0.02, until_file: flag,
                   payload: { sleep: 0.001, fail: flag }) # which the C worker does not understand
    end
    yield
    FileUtils.touch(flag)
    producers.each { |producer| expect(producer.wait(120)).to eq(0), producer.log }
    workers.each { |worker| expect(worker).to be_alive, worker.log }
    workers
  end

  # Afterwards unparks, requeues and resumes everything, so that all that was pushed must run.
  def calm(queue, ids)
    worker = kit[queue]
    worker.actions.resume
    worker.actions.unpark(ids)
    worker.actions.morgue_queue_up_all_jobs
    worker.actions.perform_all_jobs_now
    kit.drain
    lag = worker.metrics[:lag]
    expect(lag).to be < 60
  end

  it "F31 four operators run every action that deletes nothing: nothing is lost, no worker exits", limit: 1500 do
    ids = (1..60).map(&:to_s)
    pressed = nil
    workers = storm("Lossless", ids) { pressed = press_everywhere("Lossless", LOSSLESS, ids, Figures.count(3, 60)) }
    calm("Lossless", ids)
    workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults.except(:reordered)).to eq({}) # who comes back from the morgue has been overtaken
    expect(kit.leftovers).to eq([])
    Figures.note("F31", "buttons pressed, deleting ones left out", pressed.values.sum)
  end

  it "F31 four operators run every action: no worker exits, what is pushed after the last is done in order", limit: 1500 do
    ids = (1..60).map(&:to_s)
    pressed = nil
    workers = storm("Buttons", ids) { pressed = press_everywhere("Buttons", BUTTONS, ids, Figures.count(3, 60)) }
    calm("Buttons", ids)
    after = 2_000_000
    kit.push("Buttons", ids, [after, after + 1])
    kit.drain
    workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    verdict = kit.verdict
    expect(verdict.lost.grep(/ 200000[01]\z/)).to eq([])
    expect(verdict.faults.slice(:concurrent, :unfenced, :invented)).to eq({})
    expect(kit.leftovers).to eq([])
    Figures.note("F31", "buttons pressed", pressed.values.sum)
    Figures.note("F31", "numbers that were deleted before they ran", verdict.lost.size)
  end

  # R-ACTION-10: an action on all jobs spares what is pushed after it began.
  it "F31 what is pushed while an action deletes all failed jobs survives it", limit: 1500 do
    worker = kit.queue("Snapshot", shards_count: 1, fold: "list")
    ids = (1..Figures.count(4_000, 50_000)).to_a
    job = ->(payload) { ids.map { |id| { id: id, payload: payload, retry_count: 1, delay: 600 } } }
    worker.perform_async(job.call("old"))
    action = Thread.new { worker.actions.delete_all_failed_jobs }
    kit.eventually { worker.metrics[:length] < ids.size }
    went_on = action.alive?
    worker.perform_async(job.call("new"))
    expect(action.value).to eq(ids.size)
    payloads = worker.queries.range_by_id("-", "+", limit: 100_000).map { |record| record[:payloads].map(&:first) }
    expect([payloads.size, payloads.uniq]).to eq([ids.size, [["new"]]])
    expect(worker.actions.check[:findings]).to eq([])
    Figures.note("F31", "ids pushed to while all their failed jobs were deleted#{" (it was over by then)" unless went_on}", ids.size)
  end

  # ---- F35

  # Pushes to the others, one by one, and calls the block after each. @return [Hash] "id number" => when it was pushed
  def push_to(queue, others, seconds)
    deadline = Journal.now + seconds
    (1..).each_with_object({}) do |number, pushed|
      return pushed if Journal.now > deadline

      id = others[number % others.size]
      pushed["#{id} #{@number = (@number || 0) + 1}"] = Journal.now
      kit[queue].perform_async([{ id: id, payload: { n: @number } }])
      yield @number if block_given?
      sleep 0.005
    end
  end

  # Milliseconds from each push to the start of its job, sorted.
  def latencies(queue, pushed)
    kit.drain
    kit.journal.starts(queue).flat_map do |line|
      line.numbers.filter_map { |number| pushed["#{line.id} #{number}"]&.then { |at| (line.time - at) * 1000 } }
    end.sort
  end

  def percentile(sorted, share) = sorted[(sorted.size * share).to_i.clamp(0, sorted.size - 1)]

  it "F35 a hot id and a failing one do not slow the others down", limit: 1500 do
    worker = kit.queue("Fair", shards_count: 4, max_retry_count: 1000, back_off: 0.01)
    kit.worker("ruby", queue: "Fair", threads: 4, lease: 10).wait_until_started
    others = (1..50).map { |number| "other#{number}" }
    push_to("Fair", others, 1) # warms up
    expect((1..5).any? { |round| fair?(others, round) }).to be(true) # of a machine that others load; bench/fair measures
    expect(worker.actions.check[:findings]).to eq([])
  end

  # Do the others keep their latency beside a hot id and a failing one?
  def fair?(others, round)
    worker = kit["Fair"]
    seconds = Figures.count(2, 30)
    calm = latencies("Fair", push_to("Fair", others, seconds))
    good = File.join(kit.folder, "good#{round}")
    worker.perform_async([{ id: "failing", payload: { n: 1, fail: good } }])
    hot = 0
    pushed = push_to("Fair", others, seconds) do |number|
      worker.perform_async((1..9).map { |i| { id: "hot", payload: { n: number * 10 + i, sleep: 0.0005 } } })
      hot += 9
    end
    FileUtils.touch(good)
    busy = latencies("Fair", pushed)
    Figures.note("F35", "p50, p99 of other ids, ms, nothing else", [percentile(calm, 0.5), percentile(calm, 0.99)].map { |ms| ms.round(1) }.join(", "))
    Figures.note("F35", "p50, p99 of other ids, ms, beside #{hot} jobs of a hot id and a failing one",
                 [percentile(busy, 0.5), percentile(busy, 0.99)].map { |ms| ms.round(1) }.join(", "))
    percentile(busy, 0.5) <= [percentile(calm, 0.5) * 2, 100].max && percentile(busy, 0.99) <= [percentile(calm, 0.99) * 2, 1000].max
  end
  # ---- F34

  # What the end of a move of ids leaves: the shards' states and the layout say the next generation.
  def change_layout(queue, shards, generation)
    kit[queue].metrics[:shards].each_index do |shard|
      kit.redis.call("SETRANGE", "seriatim:{#{queue}/#{shard}}:state", "0", [generation].pack("E"))
    end
    kit.redis.call("SET", "seriatim:{#{queue}}:layout", "#{generation} #{shards} 3")
  end

  it "F34 clients and running servers with an old layout follow the new one, in each language", limit: 1500 do
    kit.queue("Layout", shards_count: 5, fold: "list")
    ids = (1..40).map(&:to_s)
    agents = Language::ALL.keys.map do |language|
      AgentProcess.new(language, kit.redis.url, File.join(kit.folder, "layout-#{language}")).tap { |agent| agent.worker("Layout", shards_count: 5, fold: "list") }
    end
    push = lambda do |agent, number|
      agent.push("Layout", *ids.map { |id| { id: id, payload: { n: number } } })
      kit.journal.pushed_to("Layout", ids, [number])
    end
    workers = Kit::LANGUAGES.map { |language| kit.worker(language, queue: "Layout", lease: 20) }.each(&:wait_until_started)
    agents.each_with_index { |agent, number| push.call(agent, number + 1) }
    kit.drain
    change_layout("Layout", 3, 2)
    agents.each_with_index { |agent, number| push.call(agent, number + 11) }
    agents.each(&:close)
    kit.eventually { kit.verdict.lost.empty? }
    kit.eventually { workers.all? { |worker| worker.log.include?("has 3 shards now") } }
    workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    expect(kit.verdict.faults).to eq({})
    expect(kit["Layout"].queue.shards_count).to eq(3)
    found = kit["Layout"].actions.check[:findings]
    expect(found.map { |finding| finding.values_at(:kind, :shard) }.uniq - [["stray", 3], ["stray", 4]]).to eq([])
    Figures.note("F34", "numbers pushed with an old layout in hand, all done", agents.size * ids.size)
  end
end
