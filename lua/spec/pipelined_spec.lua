-- Pushes of several workers that are written together.

local jobs = require "support.jobs"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"
local testing = require "seriatim.testing"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises
local EARLY = "when the function of pipelined has ended"

describe("seriatim.pipelined", function()
  local orders, mails

  before_each(function()
    orders, mails = jobs.worker("Orders"), jobs.worker("Mails")
  end)

  local function waiting(of)
    local ids = {}
    for place, record in ipairs(assert(of.queries:range_by_id("-", "+", { limit = 1000 }))) do
      ids[place] = record.id
    end
    return ids
  end

  local function push(of, id, options)
    return of:perform_async({ { id = id } }, options)
  end

  local function scripts()
    local total = 0
    for calls in suite.redis:call("INFO", "commandstats"):gmatch("cmdstat_eval%w*:calls=(%d+)") do
      total = total + tonumber(calls)
    end
    return total
  end

  it("R-PIPE-5: writes nothing before the function ends, and then all; the futures have the results", function()
    local futures = {}
    local results = assert(seriatim.pipelined(function()
      futures[1], futures[2], futures[3] = push(orders, 1), push(mails, "m"), push(orders, 1)
      futures[4] = orders:perform_async { { id = 1, on_waiting = "reject" }, { id = 2 } }
      assert.equal(0, orders:metrics().length)
      raises(EARLY, function() futures[1]:value() end)
      raises(EARLY, function() return futures[1].added end)
    end))
    assert.same({ "1", "2" }, waiting(orders))
    assert.same({ "m" }, waiting(mails))
    local expected = { { 1, 0, {} }, { 1, 0, {} }, { 0, 1, {} }, { 1, 0, { 1 } } }
    for place, result in ipairs(results) do
      assert.equal(result, futures[place]:value())
      assert.same(expected[place], { result.added, result.folded, result.refused_at })
    end
    assert.equal(4, #results)
    assert.equal(1, futures[4].refused)
  end)

  it("R-PIPE-1: sends the pushes of a queue as one", function()
    orders.shards_count, mails.shards_count = 2, 2
    seriatim.pipelined(function() push(orders, "first") push(mails, "first") end)
    local before = scripts()
    seriatim.pipelined(function()
      for id = 1, 200 do
        push(id % 2 == 0 and orders or mails, id)
      end
    end)
    assert.equal(4, scripts() - before)
    assert.equal(202, orders:metrics().length + mails:metrics().length)
  end)

  it("R-PIPE-2: checks each push at its call; one that is refused leaves the others alone", function()
    local payload = { n = { 1 } }
    local results = assert(seriatim.pipelined(function()
      orders:perform_async { { id = 1, payload = payload } }
      payload.n[2] = 2 -- what was pushed stays as it was
      local long = ("x"):rep(2000000)
      raises("^jobs%[2%]: payload is 2000002 bytes", function() orders:perform_async { { id = 2 }, { id = 3, payload = long } } end)
      raises("1970", function() orders:perform_async { { id = 2, perform_in = 60 } } end)
      raises("unknown key", function() orders:perform_async { { idd = 2 } } end)
    end))
    assert.equal(1, #results)
    assert.same({ "1" }, waiting(orders))
    assert.same({ n = { 1 } }, orders.queries:fetch({ 1 })[1].payloads[1][1])
  end)

  it("R-PIPE-6: writes nothing when the function raises", function()
    local future
    raises("stop", function()
      seriatim.pipelined(function()
        future = push(orders, 1)
        error("stop")
      end)
    end)
    raises("only if no error ended it", function() future:value() end)
    assert.equal(0, orders:metrics().length)
    assert.equal(1, push(orders, 2).added)
  end)

  it("R-PIPE-7: a function inside of another one joins it", function()
    local results = assert(seriatim.pipelined(function()
      assert.same({}, seriatim.pipelined(function() push(orders, 1) end))
      assert.equal(0, orders:metrics().length)
    end))
    assert.equal(1, #results)
    assert.same({ "1" }, waiting(orders))
  end)

  it("R-PIPE-8: other coroutines push at once", function()
    seriatim.pipelined(function()
      push(orders, "own")
      assert.equal(1, coroutine.wrap(function() return push(orders, "other").added end)())
      assert.same({ "other" }, waiting(orders))
    end)
    assert.same({ "other", "own" }, waiting(orders))
    local results = coroutine.wrap(function()
      return seriatim.pipelined(function() push(orders, "inside") end)
    end)()
    assert.equal(1, results[1].added)
  end)

  it("R-PIPE-1: calls the client middlewares of each push, which may drop it", function()
    local seen = {}
    table.insert(seriatim.client_middlewares, function(worker, list, next)
      seen[#seen + 1] = worker.queue_name .. " " .. list[1].id
      return list[1].id ~= "dropped" and next() or nil
    end)
    local results = assert(seriatim.pipelined(function()
      push(orders, 1)
      push(mails, "dropped")
    end))
    assert.same({ "Orders 1", "Mails dropped" }, seen)
    assert.equal(1, #results)
    assert.equal(0, mails:metrics().length)
  end)

  it("R-PIPE-9: the strictest options hold for all, and handles are those of the push that asked", function()
    local futures = {}
    local results, err = seriatim.pipelined(function()
      futures[1] = push(orders, 1)
      futures[2] = push(mails, 1, { wait_replicas = 1, wait_timeout = 0.2 })
    end)
    assert.is_nil(results)
    assert.equal("NOT_REPLICATED", err.kind)
    assert.equal(1, err.result[2].added)
    for _, future in ipairs(futures) do
      local result, its = future:value()
      assert.same({ false, "NOT_REPLICATED", 1 }, { result or false, its.kind, its.result.added })
      assert.equal(its, select(2, pcall(function() return future.added end)))
    end
    results = assert(seriatim.pipelined(function()
      push(orders, 7)
      push(mails, 7, { handle = true })
    end))
    assert.same({ 0, 1 }, { #results[1].handles, #results[2].handles })
    assert.is_true(mails.actions:cancel(results[2].handles[1]))
  end)

  it("F4, R-PIPE-9: the shortest push_timeout holds, from the end of the function", function()
    local future
    local began = native.now_ms()
    local results, err = seriatim.pipelined(function()
      push(orders, 1)
      future = push(mails, 1, { push_timeout = 0.4 })
      suite.redis:signal("STOP")
    end)
    local took = native.now_ms() - began
    suite.redis:signal("CONT")
    assert.is_nil(results)
    assert.is_true(seriatim.is_error(err))
    assert(took > 350 and took < 20000, took)
    assert.is_nil((future:value()))
  end)

  it("R-PIPE-3: a queue that fails leaves the others alone; the error names it, and each future tells its own outcome", function()
    orders.shards_count, mails.shards_count = 1, 1
    suite.redis:call("SET", "seriatim:{Orders/0}:jobs", "x")
    local first, second
    local results, err = seriatim.pipelined(function()
      first, second = push(orders, 1), push(mails, 1)
    end)
    assert.is_nil(results)
    assert.equal("SERVER", err.kind)
    assert.matches("^queue Orders: .*WRONGTYPE", err.message)
    assert.matches("WRONGTYPE", select(2, first:value()).message)
    assert.equal(1, second.added)
  end)

  it("R-PIPE-5: without a push does nothing, and needs a function", function()
    local before = scripts()
    assert.same({}, seriatim.pipelined(function() end))
    assert.equal(0, seriatim.pipelined(function() orders:perform_async {} end)[1].added)
    assert.equal(before, scripts())
    raises("the argument of pipelined", function() seriatim.pipelined() end)
  end)

  it("R-PIPE-10: in the test modes pushes are kept, or run, when the function ends", function()
    testing.fake(function()
      seriatim.pipelined(function()
        push(orders, 1)
        assert.same({}, testing.jobs(orders))
      end)
      assert.equal("1", testing.jobs(orders)[1].id)
    end)
    local ran = {}
    local once = seriatim.worker { name = "Once", perform = function(payloads_by_id) ran[#ran + 1] = next(payloads_by_id) end }
    testing.inline(function()
      seriatim.pipelined(function()
        push(once, 2)
        assert.same({}, ran)
      end)
      assert.same({ "2" }, ran)
    end)
  end)
end)
