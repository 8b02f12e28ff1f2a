-- Deliveries that are filled again, workers that change while they run, and children of fork(2): what is remembered for speed must not show.
local execution = require "seriatim.server.execution"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local support_jobs = require "support.jobs"
local suite = require "support.suite"

local KNOWS_PARAMETERS = suite.has_int64 or suite.has_integers -- PUC 5.1 gives every perform a batch

describe("a delivery that is used again", function()
  suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

  local function define(perform, options)
    local made = { name = "Spent", shards_count = 1, perform = perform, retry_in = function() return 60 end }
    for name, value in pairs(options or {}) do
      made[name] = value
    end
    return seriatim.worker(made)
  end

  ---Pushes ids from 1 on; the runner, and its workers by number.
  local function serve(worker, count)
    local list = {}
    for id = 1, count do
      list[id] = { id = id, payload = { n = id } }
    end
    assert(worker:perform_async(list))
    local node = support_jobs.serve(worker)
    return node.runner, node.workers
  end

  local function take(runner, reusable)
    runner:pulse()
    return assert(runner:take(0, 60, reusable))
  end

  it("is settled by the take that fills it again", function()
    local worker = define(function(_) end)
    local runner = serve(worker, 2)
    local delivery = take(runner)
    local first = delivery:ids()[1]
    delivery:done_all()
    assert.equal(delivery, take(runner, delivery))
    assert.not_equal(first, delivery:ids()[1])
    local id, payloads = next(delivery:payloads_by_id())
    assert.equal(tonumber(id), payloads[1].n)
    support_jobs.eventually(function() return worker:metrics().processed == 1 end)
    delivery:settle()
    assert.equal(delivery, take(runner, delivery))
    delivery:done_all()
    assert.is_nil(runner:take(0, 0, delivery))
    assert.equal("CLOSED", (select(2, delivery:settle())))
    support_jobs.eventually(function() return worker:metrics().processed == 2 end)
  end)

  it("must be of the same runner", function()
    local runner = serve(define(function(_) end), 1)
    local other = support_jobs.serve(define(function(_) end, { name = "Other" })).runner
    local delivery = take(runner)
    suite.raises("a delivery of this runner is expected", function() other:take(0, 0, delivery) end)
    suite.raises("seriatim.Delivery expected", function() runner:take(0, 0, runner) end)
    assert.equal("1", delivery:ids()[1])
    delivery:done_all()
    runner:close()
    assert.is_false(runner:take(0, 0, delivery))
  end)

  it("is done, and gives way to what next_delivery with its payloads", function()
    local runner = serve(define(function(_) end), 2)
    local delivery = take(runner)
    local first = delivery:ids()[1]
    local next_delivery, payloads_by_id = runner:advance(0, delivery)
    assert.equal(delivery, next_delivery)
    local second = delivery:ids()[1]
    assert.same({ [second] = { { n = tonumber(second) } } }, payloads_by_id)
    assert.not_equal(first, second)
    delivery:settle()
    suite.raises("a delivery that is not settled is expected", function() runner:advance(0, delivery) end)
    suite.raises("a delivery that is not settled is expected", function() runner:advance(0) end)
    take(runner, delivery)
    runner:close()
    assert.same({ n = 1, false }, { n = select("#", runner:advance(0, delivery)), runner:advance(0, delivery) })
  end)

  it("has no payloads of another worker's, or that are no JSON", function()
    local worker, other = define(function(_) end, { codec = "raw" }), define(function(_) end, { name = "Other" })
    local runner = support_jobs.serve(worker, other).runner
    assert(worker:perform_async { { id = 1, payload = "1" }, { id = 2, payload = "{" } })
    local delivery = take(runner)
    assert.same({ n = 2, delivery }, { n = select("#", runner:advance(0, delivery)), delivery })
    assert.equal("2", delivery:ids()[1])
    assert(other:perform_async { { id = 3 } })
    assert.same({ n = 1, delivery }, { n = select("#", runner:advance(0, delivery)), delivery })
    assert.equal("3", delivery:ids()[1])
    delivery:settle()
  end)

  it("is not given back where user code may hold it", function()
    local batches = {}
    local worker = define(function(_, batch) batches[#batches + 1] = batch end)
    local runner, workers = serve(worker, 2)
    assert.is_nil(execution.work(workers, take(runner)))
    assert.is_nil(execution.work(workers, take(runner)))
    support_jobs.eventually(function() return worker:metrics().processed == 2 end)
    assert.not_equal(batches[1].ids[1], batches[2].ids[1])
    assert.equal(0, batches[1].shard)
    batches[1]:done(batches[1].ids[1])
    batches[1]:extend(5) -- of nobody's run any more
    assert.equal(2, worker:metrics().processed)
  end)

  it("is given back after a failure, too", function()
    local worker = define(function(payloads_by_id)
      if payloads_by_id["1"] then
        return nil, "told"
      end
      error("raised", 0)
    end)
    local runner, workers = serve(worker, 2)
    local delivery = take(runner)
    local reusable = execution.work(workers, delivery)
    assert.equal(KNOWS_PARAMETERS and delivery or nil, reusable)
    execution.run(workers, take(runner, reusable))
    support_jobs.eventually(function() return worker:metrics().failed == 2 end)
    local errors = {}
    for _, record in ipairs(worker.queries:range_by_retry_count(0, "+inf")) do
      errors[record.id] = record.error
    end
    assert.same({ ["1"] = "told", ["2"] = "raised" }, errors)
  end)

  if KNOWS_PARAMETERS then
    local function source_of(runner)
      return { runner = runner, group = 0 }
    end

    ---Calls the function at the second of three jobs; how many ran at once, the delivery, and what followed. A third one at once
    ---would wait for a fourth, so it ends the runner.
    local function interrupted(at_second)
      local ran, at_once, runner, workers, worker = 0, true, nil, nil, nil
      worker = define(function(_)
        ran = ran + 1
        if ran == 2 then
          return at_second(worker)
        elseif ran == 3 and at_once then
          runner:close()
        end
      end)
      runner, workers = serve(worker, 3)
      local reusable, next_delivery = execution.work(workers, take(runner), source_of(runner))
      at_once = false
      return ran, reusable, next_delivery, workers, worker
    end

    it("runs what next_delivery at once, up to a failure", function()
      local ran, reusable, next_delivery, _, worker = interrupted(function() return nil, "told" end)
      assert.equal(2, ran)
      assert.is_nil(next_delivery)
      reusable:settle()
      support_jobs.eventually(function() return worker:metrics().failed == 1 end)
      assert.equal(2, worker:metrics().processed) -- runs, whatever became of them
    end)

    local CHANGES = {
      ["a middleware is inserted"] = function()
        table.insert(seriatim.server_middlewares, function(_, _, next) return next() end)
      end,
      ["middlewares are set"] = function() seriatim.server_middlewares = { function(_, _, next) return next() end } end,
      ["a codec is set"] = function() seriatim.load_payload = function() return {} end end,
      ["perform takes a batch"] = function(worker)
        local perform = worker.perform
        worker.perform = function(payloads_by_id, _) return perform(payloads_by_id) end
      end,
    }
    for change, make in pairs(CHANGES) do
      it("runs what next_delivery at once, until " .. change, function()
        local ran, reusable, next_delivery, workers, worker = interrupted(make)
        assert.equal(2, ran)
        assert.equal(reusable, next_delivery)
        execution.run(workers, next_delivery)
        support_jobs.eventually(function() return worker:metrics().processed == 3 end)
      end)
    end

    it("is handed back where the runner is closed meanwhile", function()
      local runner, workers
      runner, workers = serve(define(function(_) runner:close() end), 2)
      local _, next_delivery = execution.work(workers, take(runner), source_of(runner))
      assert.is_false(next_delivery)
    end)
  end

  it("R-CHECKPOINT-7: is stale for a flush once it was handed back", function()
    local runner = serve(define(function(_) end), 1)
    local delivery = take(runner)
    runner:stop()
    runner:abandon()
    assert.is_true(delivery:checkpoint(1, 1))
    local flushed, kind, message = delivery:flush()
    assert.same({ nil, "STALE" }, { flushed, kind })
    assert.matches("handed it back", message)
    delivery:settle()
  end)

  it("tells how long it has been held", function()
    local delivery = take((serve(define(function(_) end), 1)))
    native.sleep(0.05)
    assert.is_true(delivery:elapsed() >= 0.049)
    assert.same({ "run", 0 }, { delivery:kind() })
    delivery:settle()
  end)

  it("runs a worker as it is now", function()
    local ran, worker = {}, define(print)
    worker.perform = function(_)
      ran[#ran + 1] = "first"
      worker.perform = function(_, batch) ran[#ran + 1] = batch.ids[1] end
    end
    local runner, workers = serve(worker, 2)
    execution.run(workers, take(runner))
    execution.run(workers, take(runner))
    assert.equal("first", ran[1])
    assert.matches("^%d$", ran[2])
    worker.codec = "raw"
    worker.perform = function(payloads_by_id) ran = payloads_by_id.raw end
    assert(worker:perform_async { { id = "raw", payload = "{" } })
    execution.run(workers, take(runner))
    assert.same({ "{" }, ran)
    worker.codec, ran = nil, nil
    seriatim.load_payload = function(data) return "own " .. data end
    assert(worker:perform_async { { id = "raw", payload = 1 } })
    execution.run(workers, take(runner))
    assert.same({ "own 1" }, ran)
  end)
end)

describe("a runner's handle", function()
  it("holds the runner until another state has it", function()
    local runner = assert(native.runner { url = "unix:///nowhere", id = "x", lease_ms = 2000, poll_ms = 50, threads = 1, scheduler = 0 })
    runner:worker { queue_name = "q" }
    assert(runner:start())
    local handle = runner:handle()
    runner = nil
    collectgarbage()
    collectgarbage()
    runner = native.runner_of(handle)
    assert.is_nil(runner:take(0, 0))
    assert.is_false(runner:stats().connected)
    runner:close()
    assert.is_false(runner:take(0, 0))
  end)
end)

if suite.has_int64 then
  describe("a child of fork(2)", function()
    local ffi = require "ffi"
    ffi.cdef "int fork(void); int waitpid(int, int *, int); int getpid(void); void _exit(int);"

    it("knows itself, and touches nothing of its parent's", function()
      local runner = assert(native.runner { url = "unix:///nowhere", id = "x", lease_ms = 2000, poll_ms = 50, threads = 1, scheduler = 0 })
      runner:worker { queue_name = "q" }
      assert(runner:start())
      local pid = ffi.C.fork()
      if pid == 0 then
        local knows = native.getpid() == ffi.C.getpid() and runner:take(0, 0) == false
        ffi.C._exit(knows and select(2, runner:stats()) == "CLOSED" and 0 or 1)
      end
      local status = ffi.new("int[1]")
      assert.equal(pid, ffi.C.waitpid(pid, status, 0))
      assert.equal(0, status[0])
      assert.equal(ffi.C.getpid(), native.getpid())
      assert.equal("table", type(runner:stats()))
      runner:close()
    end)

    it("F19 starts no server that its parent made", function()
      seriatim.workers = { seriatim.worker { name = "Forked", perform = function() end } }
      local server = require("seriatim.server").new { application = "./app.lua", threads = 1 }
      seriatim.reset_settings()
      local pid = ffi.C.fork()
      if pid == 0 then
        local started, raised = pcall(server.start, server)
        local told = tostring(raised):find("CLOSED: .*; create another one after fork")
        ffi.C._exit(not started and told and 0 or 1)
      end
      local status = ffi.new("int[1]")
      assert.equal(pid, ffi.C.waitpid(pid, status, 0))
      assert.equal(0, status[0])
    end)
  end)
end
