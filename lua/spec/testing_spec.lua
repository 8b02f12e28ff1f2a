-- The test modes of applications: fake, inline, and a batch to call perform with. No Redis is asked.

local seriatim = require "seriatim"
local testing = require "seriatim.testing"
local servers = require "seriatim.server"
local suite = require "support.suite"
local jobs = require "support.jobs"

local PAID = { status = "paid" }

describe("seriatim.testing", function()
  local now = testing.now

  before_each(function()
    seriatim.reset_settings()
    seriatim.redis = "redis://127.0.0.1:1"
    seriatim.format_error = function(raised) return tostring(raised) end
  end)

  after_each(function()
    testing.now = now
    testing.set_mode "disable"
    seriatim.reset_settings()
  end)

  ---The payloads of the runs that were not asked for yet.
  local function given(worker)
    local runs, found = jobs.recorded(worker), {}
    while #runs > 0 do
      table.insert(found, table.remove(runs, 1).payloads)
    end
    return found
  end

  describe("fake", function()
    before_each(function() testing.set_mode "fake" end)

    it("R-TEST-4: keeps pushes, folded and in order, until drain runs them", function()
      local orders = jobs.worker("Orders", nil, { batch_size = 2 })
      local result = assert(orders:perform_async {
        { id = 1, payload = PAID }, { id = 1, payload = 2, score = 5 }, { id = 1, payload = PAID },
      })
      assert.same({ 1, 2, 0, 0 }, { result.added, result.folded, result.refused, result.scheduled })
      local waiting = testing.jobs(orders)
      assert.equal(2, #waiting)
      assert.same({ "1", 2, 5, "waiting", -1, {} },
        { waiting[1].id, waiting[1].payload, waiting[1].score, waiting[1].state, waiting[1].retry_count, waiting[1].context })
      assert.same(PAID, waiting[2].payload)
      assert.is_nil(waiting[2].score)
      assert.same({}, given(orders))
      assert.equal(1, testing.drain(orders))
      assert.same({ { ["1"] = { 2, PAID } } }, given(orders))
      assert.same({}, testing.jobs(orders))
    end)

    it("R-TEST-4: runs by time: what is due by then, or all", function()
      local orders, start = jobs.worker(), jobs.now()
      orders:perform_async { { id = "late", delay = 7200 }, { id = "soon", deliver_in = 60 }, { id = "now" } }
      assert.equal(1, testing.drain(orders, { at = start + 30 }))
      assert.equal(1, testing.drain(orders, { at = start + 3600 }))
      assert.same({ "late" }, jobs.ids(testing.jobs(orders)))
      assert.is_true(testing.perform_one(orders))
      assert.is_false(testing.perform_one(orders))
      suite.raises("at must be a number of Unix seconds", function() testing.drain(orders, { at = "soon" }) end)
      suite.raises("unknown option .*raises.*known are at, raise", function() testing.drain(orders, { raises = false }) end)
    end)

    it("R-TEST-4: runs what is due while the clock of the test stands still", function()
      testing.now = function() return 1800000000 end
      local orders = jobs.worker()
      for id = 1, 3 do
        orders:perform_async { { id = id } }
      end
      orders:perform_async { { id = "later", delay = 1 } }
      assert.equal(3, testing.drain(orders, { at = 1800000000 }))
      assert.equal(1, testing.drain(orders, { at = 1800000001 }))
    end)

    it("R-TEST-5: records a failure, then raises what perform raised; raise = false goes on to the morgue", function()
      local told, raised = {}, { message = "no" }
      local orders = jobs.worker("Failing", function() error(setmetatable(raised, { __tostring = function() return "no" end })) end, {
        max_retry_count = 2,
        retries_exhausted = function(list) for _, job in ipairs(list) do table.insert(told, job) end end,
      })
      orders:perform_async { { id = 1, payload = PAID } }
      local ok, caught = pcall(testing.drain, orders)
      assert.is_false(ok)
      assert.equal(raised, caught)
      local waiting = testing.jobs(orders)
      assert.same({ 1, 0, "no" }, { #waiting, waiting[1].retry_count, waiting[1].error })
      assert.equal(2, testing.drain(orders, { raise = false }))
      assert.same({}, testing.jobs(orders))
      local dead = testing.dead_jobs(orders)
      assert.same({ 1, "1", "no", "dead" }, { #dead, dead[1].id, dead[1].error, dead[1].state })
      assert.same(PAID, dead[1].payload)
      assert.same({ 1, "1", "no" }, { #told, told[1].id, told[1].error })
      assert.same(PAID, told[1].payloads[1][1])
    end)

    it("R-TEST-5: waits as retry_in says, and an id that was reported to have failed raises too, as does nil, err", function()
      local orders = jobs.worker("Reported", function(_, batch) batch:fail(1, "bad 1") end, { retry_in = function() return 600 end })
      orders:perform_async { { id = 1 } }
      suite.raises("^bad 1$", function() testing.perform_one(orders) end)
      assert.equal(0, testing.drain(orders, { at = jobs.now() + 500 }))
      suite.raises("^bad 1$", function() testing.drain(orders, { at = jobs.now() + 700 }) end)
      local other = seriatim.worker { name = "Other", perform = function() return nil, "not today" end }
      other:perform_async { { id = 1 } }
      suite.raises("^not today$", function() testing.perform_one(other) end)
    end)

    it("R-TEST-6: runs both chains of middlewares, and gives the batch what a server gives", function()
      local seen = {}
      seriatim.client_middlewares = { function(_, list, continue)
        for _, job in ipairs(list) do
          job.context = { by = "test" }
        end
        continue()
      end }
      seriatim.server_middlewares = { function(worker, batch, continue)
        table.insert(seen, { worker, batch:contexts("1") })
        return continue()
      end }
      local orders = jobs.worker("Batched", function(_, batch)
        table.insert(seen, { batch:scores("1"), batch:retry_count("1"), batch:fence("1") > 0, batch.shard >= 0 and batch.shard < 5 })
        assert(batch:checkpoint("1", 1))
        assert(batch:flush())
        suite.raises("checkpoint of 3 payloads: the id has 2 in this batch", function() batch:checkpoint("1", 3) end)
        batch:snooze("1", 60, { payload = "again" })
      end, { fold = "list" })
      orders:perform_async { { id = 1, payload = 1, score = 1 }, { id = 1, payload = 2, score = 2 } }
      testing.perform_one(orders)
      assert.equal(orders, seen[1][1])
      assert.same({ { by = "test" }, { by = "test" } }, seen[1][2])
      assert.same({ { 1, 2 }, -1, true, true }, seen[2])
      local left = testing.jobs(orders)
      assert.same({ 1, "again", 2, { by = "test" } }, { #left, left[1].payload, left[1].score, left[1].context })
    end)

    it("R-TEST-6: runs handlers of events; an event without one waits", function()
      local events, heard = seriatim.events("Tested"), {}
      events:enqueue("paid", { id = "1", event = PAID })
      local paid = events:worker "paid"
      local function waits(id)
        assert.same({ 0, 0, false }, { testing.drain(), testing.drain(paid), testing.perform_one(paid) })
        local job = testing.jobs(paid)[1]
        assert.same({ id, -1 }, { job.id, job.retry_count })
      end
      waits "1"
      events:on("paid", function(event)
        table.insert(heard, event)
        return true
      end)
      assert.equal(1, testing.drain(paid))
      events:enqueue("paid", { id = "2", event = { status = "new" } })
      assert.same({ status = "new" }, testing.pushed(paid)[2].payload)
      testing.set_mode "inline"
      events:enqueue("paid", { id = "3", event = 3 })
      events:off("paid")
      events:enqueue("paid", { id = "4", event = 4 })
      testing.set_mode "fake"
      events:enqueue("paid", { id = "5", event = 5 })
      waits "5"
      assert.same({ PAID, 3 }, heard)
    end)

    it("R-TEST-6: keeps what is pushed while the id runs for its next run", function()
      local orders
      orders = jobs.worker("Again", function(payloads)
        if payloads["1"][1] == "first" then
          orders:perform_async { { id = 1, payload = "second" } }
        end
      end)
      orders:perform_async { { id = 1, payload = "first" } }
      assert.equal(2, testing.drain(orders))
      assert.same({ { ["1"] = { "first" } }, { ["1"] = { "second" } } }, given(orders))
    end)

    it("R-TEST-6: runs a perform that takes only payloads", function()
      local seen = {}
      local orders = seriatim.worker { name = "Plain", perform = function(payloads) table.insert(seen, payloads) end }
      orders:perform_async { { id = 1, payload = PAID } }
      assert.equal(1, testing.drain(orders))
      assert.same({ { ["1"] = { PAID } } }, seen)
    end)

    it("R-TEST-7: cancels and reschedules by handle", function()
      local orders = jobs.worker()
      local handles = assert(orders:perform_async { { id = 1, deliver_in = 60 }, { id = 2, deliver_in = 60 } }).handles
      assert.is_true(orders.actions:cancel(handles[1]))
      assert.is_false(orders.actions:cancel(handles[1]))
      assert.is_true(orders.actions:reschedule(handles[2], jobs.now() + 3600))
      assert.equal("scheduled", testing.jobs(orders)[1].state)
      assert.equal(0, testing.drain(orders, { at = jobs.now() + 600 }))
      assert.equal(1, testing.drain(orders))
    end)

    it("R-TEST-8: refuses wrong jobs and payloads as a push does, before anything is kept", function()
      local orders = jobs.worker()
      for pattern, job in pairs {
        ["jobs%[2%]%.payload"] = { id = 2, payload = print },
        ["jobs%[2%]: .*60 is in 1970; .* use deliver_in %(this payload%) or delay %(its id%)"] = { id = 1, perform_in = 60 },
        ["jobs%[2%]: id is empty"] = { id = "" },
        ["unknown key 'scor'"] = { id = 1, scor = 1 },
        ["1048576"] = { id = 1, payload = ("x"):rep(2000000) },
      } do
        local raised = suite.raises(pattern, function() orders:perform_async { { id = 1 }, job } end)
        assert.truthy(raised:find("testing_spec.lua", 1, true))
      end
      assert.same({}, testing.jobs(orders))
      assert.same({}, testing.pushed())
    end)

    it("R-TEST-8: raises why a payload cannot be read, and the payload is dead", function()
      local orders = jobs.worker("Broken", nil, { codec = { tostring, function() error("unreadable", 0) end } })
      orders:perform_async { { id = 1, payload = 7 } }
      suite.raises("undecodable payload: unreadable", function() testing.drain(orders) end)
      local dead = testing.dead_jobs(orders)
      assert.same({ 1, "7" }, { #dead, dead[1].payload })
    end)

    it("R-TEST-9: refuses what needs Redis, by name, in both modes", function()
      local one = jobs.worker()
      local popped = seriatim.delivery "AUMZhfhbqRHsQxmF-Fun1QxB2sNdQZ4C9wAAAAAAAAAAAAEACABSZWNvcmRlcjE"
      seriatim.workers = { one }
      local calls = {
        { "metrics", function() one:metrics() end },
        { "query", function() one.queries:fetch { 1 } end },
        { "query", function() one.queries:range_by_deliver_at("-inf", "+inf") end },
        { "explain", function() one.queries:explain(1) end },
        { "layout", function() one.queue:shards_count() end },
        { "the action pause", function() one.actions:pause() end },
        { "check", function() one.actions:check() end },
        { "nodes", function() seriatim.nodes() end },
        { "node_command", function() seriatim.quiet_node "a" end },
        { "node_command", function() seriatim.stop_node "a" end },
        { "pop", function() seriatim.pop("Recorder", { wait = 0 }) end },
        { "a report on a delivery", function() popped:ack() end },
        { "ick", function() seriatim.ick():ickstats "a" end },
        { "ick", function() seriatim.ick({ url = "redis://127.0.0.1:1" }):ickstats "a" end },
        { "a server", function() servers.new({ application = "./app.lua" }):start() end },
      }
      for _, mode in ipairs { testing.fake, testing.inline } do
        mode(function()
          for _, each in ipairs(calls) do
            suite.raises("^" .. each[1] .. " needs Redis", each[2])
          end
        end)
      end
    end)

    it("R-TEST-9: clears and drains all workers in order of time", function()
      local first = jobs.worker("First")
      local second = jobs.worker("Second", function() first:perform_async { { id = "more" } } end)
      first:perform_async { { id = 1, delay = 60 } }
      second:perform_async { { id = 2 } }
      assert.equal(3, testing.drain())
      assert.same({ "1", "2", "more" }, jobs.ids(testing.pushed()))
      first:perform_async { { id = 3 } }
      second:perform_async { { id = 3 } }
      testing.clear(second)
      assert.same({}, testing.jobs(second))
      assert.same({}, testing.pushed(second))
      assert.same({ "3" }, jobs.ids(testing.jobs(first)))
      testing.clear()
      assert.same({}, testing.jobs(first))
      assert.same({}, testing.pushed())
      suite.raises("worker must be a seriatim.worker", function() testing.jobs("First") end)
      suite.raises("worker must be a seriatim.worker", function() testing.clear({}) end)
    end)

    it("R-TEST-9: drains a worker whose settings changed after the push", function()
      local orders = jobs.worker("Changed")
      orders:perform_async { { id = 1 } }
      orders.max_retry_count = 7
      assert.equal(1, testing.drain())
    end)

    it("R-TEST-17: pushed holds what was asked for", function()
      local orders, start = jobs.worker("Asked"), jobs.now()
      orders:perform_async {
        { id = 1, payload = PAID, score = 3, context = { a = "b" }, on_waiting = "later" },
        { id = 2, delay = 60 },
        { id = 1, on_waiting = "reject" },
        { id = 3, deliver_at = start + 1000 },
      }
      local found = testing.pushed(orders)
      assert.equal(3, #found)
      assert.same({ "Asked", "1", PAID, 3, { a = "b" }, "later" },
        { found[1].queue, found[1].id, found[1].payload, found[1].score, found[1].context, found[1].on_waiting })
      assert.is_nil(found[1].time)
      assert.equal(found[2].at + 60, found[2].time)
      assert.equal("", found[2].payload)
      assert.is_true(found[2].at >= start)
      assert.is_true(math.abs(found[3].time - start - 1000) < 0.001)
    end)
  end)

  for _, mode in ipairs { "fake", "inline" } do
    it("R-TEST-17: pushed reads an event whose type has no handler, in " .. mode, function()
      local events = seriatim.events("Unheard")
      testing.set_mode(mode)
      events:enqueue("paid", { id = "1", event = PAID })
      seriatim.load_payload = function(data) return { loaded = data } end
      events:enqueue("paid", { id = "2", event = 2 })
      local found = testing.pushed()
      assert.same({ PAID, { loaded = "2" } }, { found[1].payload, found[2].payload })
    end)
  end

  it("R-TEST-10: functions nest, each with queues of its own, and end with an error too", function()
    local orders = jobs.worker()
    local one, two = testing.fake(function(...)
      orders:perform_async { { id = 1 } }
      testing.fake(function() assert.same({}, testing.jobs(orders)) end)
      testing.inline(function() orders:perform_async { { id = 2 } } end)
      assert.same({ "1" }, jobs.ids(testing.jobs(orders)))
      suite.raises("set_mode is not for the inside", function() testing.set_mode "fake" end)
      return ...
    end, "a", "b")
    assert.same({ "a", "b" }, { one, two })
    assert.same({ { ["2"] = { "" } } }, given(orders))
    suite.raises("^mine$", function() testing.fake(function() error("mine", 0) end) end)
    suite.raises("no mode is on", function() testing.pushed() end)
    suite.raises("not kept in memory", function() testing.drain() end)
    testing.set_mode "inline"
    suite.raises("not kept in memory", function() testing.jobs(orders) end)
    suite.raises("mode must be one of fake, inline, disable", function() testing.set_mode "wrong" end)
    testing.set_mode "fake"
    orders:perform_async { { id = 1 } }
    testing.set_mode "fake"
    assert.same({}, testing.jobs(orders))
  end)

  it("R-TEST-10: disable uses Redis", function()
    testing.fake(function()
      testing.disable(function()
        local _, err = jobs.worker():perform_async({ { id = 1 } }, { push_timeout = 0.1 })
        assert.is_true(seriatim.is_error(err))
      end)
    end)
  end)

  it("R-TEST-11: runs each push at once in inline, without regard to times, and errors reach the caller", function()
    local orders = jobs.worker("Inline", function(payloads)
      if payloads.bad then
        error("no", 0)
      end
    end, { batch_size = 10 })
    testing.set_mode "inline"
    local result = assert(orders:perform_async {
      { id = 1, payload = 1, delay = 60 }, { id = 1, payload = 2 }, { id = 2, deliver_in = 60 },
    })
    assert.same({ 1, 1, 1 }, { result.added, result.folded, result.scheduled })
    suite.raises("^no$", function() orders:perform_async { { id = "bad" } } end)
    assert.same({ "1", "1", "2", "bad" }, jobs.ids(testing.pushed(orders)))
    local every = {}
    for _, payloads in ipairs(given(orders)) do
      for id, list in pairs(payloads) do
        every[id] = list
      end
    end
    assert.same({ ["1"] = { 1, 2 }, ["2"] = { "" }, bad = { "" } }, every)
  end)

  it("R-TEST-11: runs an id once for each push in inline, though it is snoozed or has failed", function()
    local orders = jobs.worker("Once", function(payloads, batch)
      if payloads.bad then
        batch:fail("bad", "no")
      else
        batch:snooze("1", 0.001)
      end
    end)
    testing.set_mode "inline"
    orders:perform_async { { id = 1 } }
    orders:perform_async { { id = 1 } }
    suite.raises("^no$", function() orders:perform_async { { id = "bad" } } end)
    assert.same({ { ["1"] = { "" } }, { ["1"] = { "" } }, { bad = { "" } } }, given(orders))
  end)

  it("R-TEST-11: runs an id once for each push in inline, though it is snoozed for 0 seconds", function()
    local runs = 0
    local orders = jobs.worker("Once", function(_, batch)
      runs = runs + 1
      assert(runs < 3, "it runs again and again")
      batch:snooze("1", 0)
    end)
    testing.set_mode "inline"
    orders:perform_async { { id = 1 } }
    assert.equal(1, runs)
  end)

  it("R-TEST-11: clear forgets what was pushed inline", function()
    local orders, others = jobs.worker("Orders"), jobs.worker("Others")
    testing.set_mode "inline"
    for _, each in ipairs { orders, others } do
      each:perform_async { { id = 1 } }
    end
    testing.clear(orders)
    assert.same({ "Others" }, { testing.pushed()[1].queue, testing.pushed()[2] })
    testing.clear()
    assert.same({}, testing.pushed())
    others:perform_async { { id = 2 } }
    assert.equal(1, #testing.pushed(others))
    testing.set_mode "disable"
    suite.raises("no mode is on", function() testing.clear() end)
    suite.raises("no mode is on", function() testing.clear(orders) end)
  end)

  it("R-TEST-12: a batch remembers what perform reported", function()
    local orders = jobs.worker("Direct", function(_, batch)
      batch:checkpoint(1, 1)
      batch:snooze(1, 60)
      batch:fail(2, "no")
      batch:done("3")
      batch:extend(5)
      batch:flush()
    end, { fold = "list" })
    local batch = testing.batch(orders, { [1] = { PAID, 2 }, [2] = { 3 }, [3] = {} },
      { retry_count = 4, error = "before", contexts = { [2] = { { a = "b" } } } })
    orders.perform(batch.payloads_by_id, batch)
    assert.same({ ["1"] = { PAID, 2 }, ["2"] = { 3 }, ["3"] = {} }, batch.payloads_by_id)
    assert.same({ checkpoints = { ["1"] = 1 }, snoozed = { ["1"] = 60 }, failed = { ["2"] = "no" }, finished = { "3" }, extended = 5 },
      testing.reported(batch))
    assert.same({ 4, { 1, 2 }, { { a = "b" } }, "before" },
      { batch:retry_count(1), batch:scores(1), batch:contexts(2), batch:error(3) })
    suite.raises("the id has 2 in this batch", function() batch:checkpoint(1, 3) end)
    suite.raises("payload is 1048577 bytes long", function() batch:snooze(1, 0, { payload = ("x"):rep(1048575) }) end)
    assert.same({ 9 }, testing.batch(orders, { [1] = { 1 } }, { scores = { ["1"] = { 9 } } }):scores(1))
    suite.raises("batch must be a batch of seriatim.testing.batch", function() testing.reported({}) end)
  end)
end)
