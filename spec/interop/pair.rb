# frozen_string_literal: true

require_relative "agents"

# What two processes, each in its language, must be to each other: x pushes and operates, y runs.
class Pair
  INT64 = [9_223_372_036_854_775_807, -9_223_372_036_854_775_808, 9_007_199_254_740_993, 0, -1].freeze
  PAYLOAD = {
    "text" => "Zoë 😀 \u0000 \u2028 \" \\ / \u007f", "int64" => INT64,
    "floats" => [0.1, -2.5, 1e-7, 1e21, 5e-324, 1.7976931348623157e308, 123_456_789.125],
    "whole" => [1.0, -0.0, 1e3, 1e18, 1e20],
    "nothing" => nil, "yes" => true, "no" => false, "empty" => [[], {}, ""], "" => { "deep" => [[[{ "a" => [nil] }]]] },
    "\u{1F600}" => "before", "\uFFFD" => "after"
  }.freeze
  # As every language reads it back: a whole number within int64 is an integer.
  READ = PAYLOAD.merge("whole" => [1, 0, 1000, 1_000_000_000_000_000_000, 1e20]).freeze
  BYTES = { "hex" => "00ff0a7bc3" }.freeze # no UTF-8
  IDS = ENV["SOAK"] == "1" ? 10_000 : 200
  SEED = Integer(ENV.fetch("SEED") { ENV["SOAK"] == "1" ? rand(100_000) : 1 })
  ERROR = "kaputt: Straße 😀\nsecond line"
  CONTEXT = { "trace" => "00-4bf9", "Mieter" => "Zoë\n" }.freeze

  attr_reader :checks, :failures

  def initialize(x, y)
    @x = x
    @y = y
    @queues = []
    @checks = 0
    @failures = []
  end

  def run
    run_and_fail
    arrive
    retry_at_once
    wait
    bury
    stop_and_go
    fold
    meet
    shards
    raw
    any_ids
    commit_in_two_phases
    @queues.product([@x, @y]).each { |queue, agent| same("#{queue}: findings of #{agent.language}", [], agent.check(queue)) }
    kill_a_consumer
  rescue AgentProcess::Refused => e
    @checks += 1
    @failures << e.message
  end

  private

  # R-ICK-14: added in x, reserved and committed in y; x cannot commit what y has reserved.
  def commit_in_two_phases
    same("added", [3, 0], @x.ick("ickadd", "{dirty} é", 2.5, "Zürich", 1, 42, 1700000000.123456, ""))
    same("added again", [1, 1], @y.ick("ickadd", "{dirty} é", 3, "new", -1, "Zürich"))
    batch = [["Zürich", -1.0], ["42", 1.0], ["new", 3.0], ["", 1700000000.123456]]
    same("reserved", batch, @y.ick("ickreserve", "{dirty} é", 10))
    same("committed by who has not reserved", 0, @x.ick("ickcommit", "{dirty} é", "42"))
    same("committed", 4, @y.ick("ickcommit", "{dirty} é", "Zürich", 42, "new", ""))
    same("statistics", 0, @x.ick("ickstats", "{dirty} é")["total_size"])
    same("deleted", 1, @x.ick("ickdel", "{dirty} é"))
  end

  # R-ICK-5: what a killed process had reserved, and not committed, is given to the next one of its consumer at once, in its order.
  def kill_a_consumer
    @y.ick("ickadd", "dirty", 3, "c", 1, "a", 2, "b")
    batch = [["a", 1.0], ["b", 2.0]]
    same("reserved", batch, @x.ick("ickreserve", "dirty", 2))
    @x.replace
    same("reserved by another language after a kill", batch, @y.ick("ickreserve", "dirty", 2))
    same("reserved by the process in its place", batch, @x.ick("ickreserve", "dirty", 2))
    same("committed by the process in its place", 2, @x.ick("ickcommit", "dirty", "a", "b"))
    same("left", [["c", 3.0]], @x.ick("ickreserve", "dirty", 2))
  end

  # Pushed in x, failed in y, done in x.
  def run_and_fail
    queue = declare("Orders {x}: é 1", max_retry_count: 3)
    jobs = [{ id: "Zürich {a}: b", payload: PAYLOAD, score: 2.5, context: CONTEXT }, { id: "Zürich {a}: b", payload: [1.5], score: -1e300 },
            { id: 42, payload: INT64, score: 9_007_199_254_740_992 }, { id: BYTES, payload: "", context: { "a" => "" } }]
    pushed = @x.push(queue, *jobs)
    true?("no handles where none was asked for", pushed.delete("handles").empty?)
    same("push", { "added" => 3, "folded" => 1, "refused" => 0, "refused_at" => [], "scheduled" => 0, "stale" => 0 }, pushed)
    ids = ["Zürich {a}: b", "42", BYTES]
    payloads = [[[[1.5], -1e300], [READ, 2.5]], [[INT64, 9_007_199_254_740_992.0]]]
    same("waiting", payloads, @y.fetch(queue, *ids).first(2).map { |record| record["payloads"] })

    failed = @y.run(queue, 3, error: ERROR)
    same_runs("first run", failed, -1, [nil] * 3)
    waiting = @x.fetch(queue, *ids)
    same("ids after a failure", ids, pick(waiting, "id"))
    same("retry_count after a failure", [0] * 3, pick(waiting, "retry_count"))
    same("error after a failure", [ERROR] * 3, pick(waiting, "error"))
    within("back-off", 40..60, waiting.first["perform_in"] - Time.now.to_f)
    same("run now", 3, @x.action(queue, "perform_all_jobs_now"))

    done = @x.run(queue, 3)
    same_runs("second run", done, 0, [ERROR] * 3)
    same("scores stay", pick(failed, "scores"), pick(done, "scores"))
    true?("fences rise", failed.zip(done).all? { |before, after| after["fence"] > before["fence"] })
    empty(queue)
  end

  def same_runs(name, runs, retry_count, errors)
    same("#{name}: ids", ["42", "Zürich {a}: b", BYTES], pick(runs, "id"))
    same("#{name}: payloads", [[INT64], [[1.5], READ], [""]], pick(runs, "payloads"))
    same("#{name}: contexts", [[{}], [{}, CONTEXT], [{ "a" => "" }]], pick(runs, "contexts"))
    same("#{name}: scores", [[9_007_199_254_740_992.0], [-1e300, 2.5]], pick(runs.first(2), "scores"))
    same("#{name}: retry_count", [retry_count] * 3, pick(runs, "retry_count"))
    same("#{name}: errors", errors, pick(runs, "error"))
  end

  # Without scores: by arrival, whoever pushed.
  def arrive
    queue = declare("Arrival")
    30.times { |number| (number.even? ? @x : @y).push(queue, { id: "one", payload: number }) }
    run = @y.run(queue, 1).first
    same("arrival", (0..29).to_a, run["payloads"])
    true?("scores rise", run["scores"].each_cons(2).all? { |a, b| a < b })
    empty(queue)
  end

  # As often as y's worker says, in its rhythm.
  def retry_at_once
    queue = declare("Retries", retry_in: 0, max_retry_count: 3, on_exhausted: "park")
    @x.push(queue, { id: "again", payload: 1 })
    same("retries", [-1, 0, 1, 2], pick(@y.run(queue, 4, error: ERROR), "retry_count"))
    same("parked after them", [["again", ERROR]], @x.query(queue, "parked").map { |record| record.values_at("id", "error") })
  end

  # Times are Redis', whoever gave them.
  def wait
    queue = declare("Times")
    at = Time.now.to_f + 3600.5
    before = Time.now.to_f
    @x.push(queue, { id: "delay", payload: 1, delay: 0.6 }, { id: "at", payload: 1, perform_in: at }, { id: "alias", payload: 1, perform_at: at })
    after = Time.now.to_f
    records = @y.fetch(queue, "delay", "at", "alias")
    within("delay", (before + 0.59)..(after + 0.61), records[0]["perform_in"])
    within("perform_in", -0.01..0.01, records[1]["perform_in"] - at)
    within("perform_at", -0.01..0.01, records[2]["perform_in"] - at)
    same("by time", %w[delay alias at], pick(@y.query(queue, "range_by_perform_in", "-inf", "+inf"), "id"))
    same("only the due one runs", ["delay"], pick(@y.run(queue, 1), "id"))
    within("not early", records[0]["perform_in"].., Time.now.to_f)
  end

  # Dies in y, comes back in x.
  def bury
    queue = declare("Dead", max_retry_count: 0)
    @x.push(queue, { id: BYTES, payload: PAYLOAD, score: 7, context: CONTEXT }, { id: "dropped", payload: 1 })
    @y.run(queue, 2, error: ERROR)
    told = @y.exhausted.sort_by { |job| job["id"].to_s }
    same("retries_exhausted", ["dropped", BYTES], pick(told, "id"))
    same("its error", ERROR, told[1]["error"])
    same("its payloads", [[READ, 7.0]], told[1]["payloads"])
    [@x, @y].each do |agent|
      dead = agent.query(queue, "morgue_fetch", [BYTES])
      same("morgue seen by #{agent.language}", [[BYTES, ERROR, [[READ, 7.0]]]], dead.map { |record| record.values_at("id", "error", "payloads") })
    end
    same("deleted from the morgue", 1, @x.action(queue, "morgue_delete", ["dropped"]))
    same("queued up", 1, @x.action(queue, "morgue_queue_up", [BYTES]))
    run = @x.run(queue, 1).first || {}
    same("back from the morgue", [BYTES, [READ], [7.0], [CONTEXT], -1], run.values_at("id", "payloads", "scores", "contexts", "retry_count"))
    empty(queue)
  end

  # x parks, pauses and deletes; y sees it.
  def stop_and_go
    queue = declare("Operators")
    @x.push(queue, { id: "parked", payload: 1 }, { id: "deleted", payload: 1 }, { id: "free", payload: 1 })
    same("park", 1, @x.action(queue, "park", ["parked"]))
    same("delete", 1, @x.action(queue, "delete", ["deleted"]))
    same("parked", ["parked"], pick(@y.query(queue, "parked"), "id"))
    @y.push(queue, { id: "parked", payload: 2, on_waiting: "replace" })
    @x.action(queue, "pause")
    same("paused", true, @y.explain(queue, "free")["paused"])
    same("nothing runs while paused", [], @y.run(queue, 1, seconds: 0.3))
    @y.action(queue, "resume")
    same("not paused", false, @x.explain(queue, "free")["paused"])
    same("the free one runs", ["free"], pick(@y.run(queue, 1), "id"))
    same("the parked one does not", [], @y.run(queue, 1, seconds: 0.3))
    same("unpark", 1, @y.action(queue, "unpark", ["parked"]))
    same("both payloads run", [["parked", [1, 2], -1]], @x.run(queue, 1).map { |run| run.values_at("id", "payloads", "retry_count") })
    empty(queue)
  end

  # The same bytes from both.
  def fold
    queue = declare("Folded")
    same("first push", [1, 0], push(@x, queue, PAYLOAD))
    same("keys in another order", [0, 1], push(@y, queue, PAYLOAD.to_a.reverse.to_h))
    same("1 for 1.0", [0, 1], push(@y, queue, READ))
    same("folded: one payload", [READ], pick(@x.fetch(queue, "one").first["payloads"], 0))
    kept = declare("Kept", fold: "list")
    [@x, @y].each { |agent| push(agent, kept, PAYLOAD) }
    same("list: two payloads", [READ, READ], @y.run(kept, 1).first["payloads"])
    last = declare("Last", fold: "last")
    @x.push(last, { id: "one", payload: "old", score: 1 })
    @y.push(last, { id: "one", payload: "new", score: 2 })
    @x.push(last, { id: "one", payload: "late", score: 1.5 })
    same("last", ["new"], @y.run(last, 1).first["payloads"])
  end

  def push(agent, queue, payload) = agent.push(queue, { id: "one", payload: payload, score: 1 }).values_at("added", "folded")

  # on_waiting belongs to the queue: x's first push writes it, y's push acts by it whatever y's code says, and a job's own
  # on_waiting counts before it.
  def meet
    queue = "Meeting"
    @x.worker(queue, on_waiting: "earlier")
    @y.worker(queue, on_waiting: "later")
    @queues << queue
    @x.push(queue, { id: "one", payload: 1, delay: 600 })
    before = due(queue)
    @y.push(queue, { id: "one", payload: 2, delay: 300 })
    within("y pushes by x's earlier", -301..-280, due(queue) - before)
    rejected = @y.push(queue, { id: "one", payload: 3, on_waiting: "reject" })
    same("reject of y's job", [0, 1, [0]], rejected.values_at("added", "refused", "refused_at"))
    @x.push(queue, { id: "one", payload: 4, delay: 900, on_waiting: "later" })
    within("later of x's job", 299..320, due(queue) - before)
    same("payloads", [1, 2, 4], pick(@x.fetch(queue, "one").first["payloads"], 0))
    overwrite
  end

  # A server that starts with another on_waiting overwrites what the first push wrote.
  def overwrite
    queue = "Overwritten"
    @x.worker(queue, on_waiting: "keep")
    @y.worker(queue, on_waiting: "reject")
    @queues << queue
    @x.push(queue, { id: "one", payload: 1, delay: 600 })
    same("not due", [], @y.run(queue, 1, seconds: 0.3))
    rejected = @y.push(queue, { id: "one", payload: 2 })
    same("reject of y's server", [0, 1, [0]], rejected.values_at("added", "refused", "refused_at"))
    same("one payload", [1], pick(@x.fetch(queue, "one").first["payloads"], 0))
  end

  def due(queue) = @y.fetch(queue, "one").first["perform_in"]

  # What x made counts, whatever y's code says.
  def shards
    queue = "Shards"
    @x.worker(queue, shards_count: 7)
    @y.worker(queue, shards_count: 3, batch_size: 4)
    @queues << queue
    ids = Array.new(60) { |number| "id #{number}" }
    @x.push(queue, *ids.first(30).map { |id| { id: id, payload: id } })
    @y.push(queue, *ids.last(30).map { |id| { id: id, payload: id } })
    [@x, @y].each { |agent| same("shards seen by #{agent.language}", 7, agent.metrics(queue)["shards"].size) }
    same("all ids run", ids.sort, pick(@y.run(queue, 60), "id").sort)
    empty(queue)
  end

  def raw
    queue = declare("Raw bytes", codec: "raw")
    @x.push(queue, { id: "one", payload: BYTES }, { id: "one", payload: { "hex" => "ff" } })
    same("raw payloads", [BYTES, { "hex" => "ff" }], @y.run(queue, 1).first["payloads"])
  end

  # Random ones come back as they are, of all lengths; those that are UTF-8 as text.
  def any_ids
    queue = declare("Any ids", batch_size: 50)
    random = Random.new(SEED)
    ids = Array.new(IDS) { |number| random.bytes(number % 100 == 99 ? 1024 : 1 + random.rand(40)) }.uniq.map { |id| wire(id) }
    @x.push(queue, *ids.map { |id| { id: id, payload: 1 } })
    found = pick(@y.run(queue, ids.size), "id")
    judge("any ids, SEED=#{SEED}", found.size == ids.size && (ids - found).empty?) { "not back: #{(ids - found).first(3).inspect}" }
    empty(queue)
  end

  def wire(id)
    text = id.dup.force_encoding(Encoding::UTF_8)
    text.valid_encoding? ? text : { "hex" => id.unpack1("H*") }
  end

  # ---- checks

  # A queue that both know alike.
  def declare(queue, **settings)
    [@x, @y].each { |agent| agent.worker(queue, **settings) }
    @queues << queue
    queue
  end

  def empty(queue)
    same("#{queue}: nothing is left", [0, 0, 0], @y.metrics(queue).values_at("length", "busy", "morgue_length"))
  end

  def pick(records, field) = records.map { |record| record[field] }

  # 1 and 1.0 differ here.
  def same(name, wanted, found)
    judge(name, wanted.eql?(found)) { "wanted #{wanted.inspect}\n      found  #{found.inspect}" }
  end

  def within(name, range, found)
    judge(name, range.cover?(found)) { "#{found} is not within #{range}" }
  end

  def true?(name, found) = judge(name, found) { "not so" }

  def judge(name, good)
    @checks += 1
    @failures << "#{name}: #{yield}" unless good
  end
end
