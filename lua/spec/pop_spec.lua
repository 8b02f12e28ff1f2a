-- Pull: pop and the methods of its deliveries.

local jobs = require "support.jobs"
local log = require "seriatim.log"
local logged = require "support.logged"
local native = require "seriatim.native"
local pool = require "seriatim.client.pool"
local seriatim = require "seriatim"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises

describe("pop", function()
  local orders

  before_each(function() orders = jobs.worker("Orders", nil, { shards_count = 2 }) end)

  local function pop(options, queues)
    local given = { wait = 0 }
    for name, value in pairs(options or {}) do
      given[name] = value
    end
    local delivery, err = seriatim.pop(queues or "Orders", given)
    assert.is_nil(err)
    return delivery
  end

  local function record(id)
    return assert(orders.queries:fetch { id })[1]
  end

  local function assert_stale(done, err)
    assert.is_nil(done)
    assert.is_true(seriatim.is_error(err, "STALE"), tostring(err))
  end

  it("returns nil if no id is due", function()
    assert.is_nil(pop())
    orders:perform_async { { id = 1 } }
    assert.is_nil(pop(nil, "Others"))
  end)

  it("R-POP-1: returns an id with its payloads, scores and contexts", function()
    orders:perform_async {
      { id = 7, payload = { n = 2 }, score = 2 }, { id = 7, payload = { n = 1 }, score = 1, context = { trace = "t" } },
    }
    local delivery = pop()
    assert.same({ "7", "Orders", 1 }, { delivery.id, delivery.queue, delivery.deliveries })
    assert.same({ { n = 1 }, { n = 2 } }, delivery.payloads)
    assert.same({ 1, 2 }, delivery.scores)
    assert.same({ { trace = "t" }, {} }, delivery.contexts)
    assert.is_true(delivery.fence > 0)
    assert.equal('seriatim.PoppedDelivery{queue=\'Orders\', id=\'7\', fence=' .. ("%.0f"):format(delivery.fence) .. ", deliveries=1}",
      tostring(delivery))
    assert.is_nil(pop())
    assert.is_true(delivery:ack())
    assert.is_nil(record("7"))
    assert_stale(delivery:ack())
  end)

  it("R-POP-3, R-POP-4: delivers an id again that is not acknowledged in time", function()
    orders:perform_async { { id = 1 } }
    local first = pop { ttr = 0.05 }
    local second = pop { wait = 60 }
    assert.same({ "1", 2 }, { second.id, second.deliveries })
    assert_stale(first:ack())
    assert.is_true(second:ack())
  end)

  it("R-POP-4: release and snooze count no failure", function()
    orders:perform_async { { id = 1, payload = "a" } }
    assert.is_true(pop():release())
    assert.is_true(pop():snooze(0, { payload = "b" }))
    local delivery = pop()
    assert.same({ 3, { "b" } }, { delivery.deliveries, delivery.payloads })
    assert.is_true(delivery:snooze(1000))
    assert.is_nil(pop())
    assert.equal(-1, record("1").retry_count)
  end)

  it("fail stores the error and the time of the next run", function()
    seriatim.dump_error = function(text) return text:upper() end
    orders:perform_async { { id = 1 } }
    assert.is_true(pop():fail("no answer", { retry_in = 0 }))
    assert.same({ 0, "NO ANSWER" }, { record("1").retry_count, record("1").error })
    assert.is_true(pop():fail { message = "of a table" })
    assert.same({ 1, "OF A TABLE" }, { record("1").retry_count, record("1").error })
    assert.is_nil(pop())
  end)

  it("fail takes nil for an error, which pcall gives of error()", function()
    orders:perform_async { { id = 1 } }
    local _, raised = pcall(error)
    assert.is_true(pop():fail(raised))
    assert.equal("nil", record("1").error)
  end)

  it("stores an error where format_error or dump_error raises, and says so in the log", function()
    seriatim.format_error = function() error("format", 0) end
    seriatim.dump_error = function(text) return text:find("^boom") and text or error("dump", 0) end
    orders:perform_async { { id = 1 } }
    local lines = logged(log.INFO, function() assert.is_true(pop():fail("no")) end)
    local stored = record("1").error
    assert.matches("no\n(dump_error raised dump", stored, 1, true)
    assert.matches("q=Orders hook format_error raised format", lines, 1, true)
    assert.matches("q=Orders hook dump_error raised dump", lines, 1, true)
  end)

  it("extend moves the end of the run", function()
    orders:perform_async { { id = 1 } }
    local delivery = pop { ttr = 2 }
    assert.is_true(delivery:extend(1000))
    native.sleep(2.1)
    assert.is_nil(pop())
    assert.is_true(delivery:ack())
  end)

  it("R-POP-15: a checkpoint ends the first payloads, whatever becomes of the others", function()
    orders:perform_async { { id = 1, payload = "a", score = 1 }, { id = 1, payload = "b", score = 2 }, { id = 1, payload = "c", score = 3 } }
    local delivery = pop()
    assert.is_true(delivery:checkpoint(0))
    assert.is_true(delivery:checkpoint(1))
    assert.is_true(delivery:checkpoint(2))
    assert.is_true(delivery:release())
    assert.same({ "c" }, pop().payloads)
  end)

  it("R-POP-5: with ttr = 0 the delivery has ended", function()
    orders:perform_async { { id = 1, payload = "a" } }
    local delivery = pop { ttr = 0 }
    assert.same({ "a" }, delivery.payloads)
    assert.is_nil(delivery.token)
    assert.is_true(delivery:ack())
    raises("^release: the delivery of '1' was popped with ttr = 0, so it has ended already$", function() delivery:release() end)
    assert.is_nil(record("1"))
  end)

  it("R-POP-6: gives at most max payloads, and the rest when these have ended", function()
    orders:perform_async { { id = 1, payload = "a" }, { id = 1, payload = "b" }, { id = 1, payload = "c" } }
    local delivery = pop { max = 2 }
    assert.same({ "a", "b" }, delivery.payloads)
    assert.is_true(delivery:ack())
    assert.same({ "c" }, pop().payloads)
  end)

  it("R-POP-7: takes from the first queue that has a due id", function()
    local others = jobs.worker("Others")
    others:perform_async { { id = "second" } }
    assert.equal("second", pop(nil, { "Orders", others }).id)
    orders:perform_async { { id = "first" } }
    others:perform_async { { id = "third" } }
    assert.equal("first", pop(nil, { orders, "Others" }).id)
  end)

  it("R-POP-8: takes turns by weights", function()
    local others = jobs.worker("Others")
    for id = 1, 6 do
      orders:perform_async { { id = id } }
      others:perform_async { { id = id } }
    end
    local counts = { Orders = 0, Others = 0 }
    for _ = 1, 6 do
      local delivery = pop({ weights = { Orders = 2, [others] = 1 } }, { "Orders", "Others" })
      counts[delivery.queue] = counts[delivery.queue] + 1
    end
    assert.same({ Orders = 4, Others = 2 }, counts)
  end)

  it("R-POP-8: takes turns by weights over all connections of the process", function()
    local most, few = jobs.worker("Most"), jobs.worker("Few")
    for id = 1, 6 do
      most:perform_async { { id = id } }
      few:perform_async { { id = id } }
    end
    local turns = {}
    local function take()
      turns[#turns + 1] = pop({ weights = { Most = 2, Few = 1 } }, { "Most", "Few" }).queue
    end
    for at = 1, 6 do
      if at % 2 == 0 then
        pool.ask(take) -- on another connection than the one that this borrows
      else
        take()
      end
    end
    assert.same({ "Most", "Few", "Most", "Most", "Few", "Most" }, turns)
  end)

  it("R-POP-13: waits, at most as long as it may", function()
    local began = native.now_ms()
    assert.is_nil(pop { wait = 0.3 })
    assert.is_true(native.now_ms() - began >= 300)
    orders:perform_async { { id = 1, delay = 0.2 } }
    assert.equal("1", pop({ wait = 60 }).id)
  end)

  it("R-POP-16: sends payloads that cannot be read to the morgue and goes on", function()
    local raw = seriatim.worker { name = "Raw", queue_name = "Orders", codec = "raw", shards_count = 2 }
    raw:perform_async { { id = "x", payload = "{", score = 1 }, { id = "x", payload = '"good"', score = 2 } }
    local delivery
    local lines = logged(log.ERROR, function() delivery = pop(nil, orders) end)
    assert.same({ "good" }, delivery.payloads)
    assert.truthy(lines:find("1 payloads cannot be read: undecodable payload", 1, true), lines)
    local dead = assert(raw.queries:morgue_fetch { "x" })[1]
    assert.equal("{", dead.payloads[1][1])
    assert.truthy(dead.error:find("undecodable payload", 1, true))
  end)

  it("R-POP-16: ends its wait amid deliveries of which nothing can be read", function()
    local raw = seriatim.worker { name = "Raw", queue_name = "Orders", codec = "raw", shards_count = 2 }
    local broken = {}
    for n = 1, 150 do
      broken[n] = { id = n, payload = "{" }
    end
    raw:perform_async(broken)
    for _, dead in ipairs { 100, 150 } do
      logged(log.ERROR, function() assert.is_nil(pop({ wait = 0 }, orders)) end)
      assert.equal(dead, assert(raw:metrics()).morgue_length)
    end
  end)

  it("R-POP-16: with ttr = 0 delivers what can be read and logs the rest", function()
    local raw = seriatim.worker { name = "Raw", queue_name = "Orders", codec = "raw", shards_count = 2 }
    raw:perform_async { { id = "x", payload = "{", score = 1 }, { id = "x", payload = '"good"', score = 2 } }
    local delivery
    local lines = logged(log.ERROR, function() delivery = pop({ ttr = 0 }, orders) end)
    assert.same({ { "good" }, { 2 } }, { delivery.payloads, delivery.scores })
    assert.truthy(lines:find("ttr = 0 has ended them", 1, true), lines)
  end)

  it("reads a queue that is given by name with the codec of its worker", function()
    local raw = seriatim.worker { name = "Raw", codec = "raw" }
    raw:perform_async { { id = 1, payload = "{" } }
    assert.same({ "{" }, pop(nil, "Raw").payloads)
  end)

  it("creates no queue, and keeps the settings of a worker that pushes by the same connection", function()
    assert.is_nil(pop(nil, { "Nobody" }))
    assert.equal("0", suite.redis:call("DBSIZE"))
    local list = seriatim.worker { name = "List", fold = "list" }
    list:perform_async { { id = 1, payload = "a" } }
    assert.equal("1", pop(nil, "List").id)
    list:perform_async { { id = 2, payload = "a" }, { id = 2, payload = "a" } }
    assert.same({ "a", "a" }, pop(nil, "List").payloads)
  end)

  it("refuses what is wrong and names the field, before anything is sent", function()
    seriatim.redis = "redis://127.0.0.1:1"
    raises("^queues must be a list of names and workers, not nil$", function() seriatim.pop() end)
    raises("^queues must be 1 to 1000 names or workers, not 0$", function() seriatim.pop {} end)
    raises("^queues%[2%] must be the name of a queue or a worker, not 5 %(number%)$", function() seriatim.pop { "a", 5 } end)
    raises("^queues%[1%] must be a text of 1 to %d+ bytes, not ''", function() seriatim.pop { "" } end)
    raises("^unknown option 'wiat'; known are wait, ttr, max, weights$", function() seriatim.pop("a", { wiat = 1 }) end)
    raises("^wait must be a number of seconds from 0 to 60, not 61 %(number%)$", function() seriatim.pop("a", { wait = 61 }) end)
    raises("^ttr must be 0 or a number of seconds from 0.001 to 31536000, not %-1", function() seriatim.pop("a", { ttr = -1 }) end)
    raises("^ttr must be 0 or .*, not NaN", function() seriatim.pop("a", { ttr = 0 / 0 }) end)
    raises("^max must be an integer from 1 to 1000, not 0", function() seriatim.pop("a", { max = 0 }) end)
    raises("^queues: 'a' is named twice$", function() seriatim.pop { "a", "b", "a" } end)
    raises("^weights must be a table from queue to weight, not 5", function() seriatim.pop("a", { weights = 5 }) end)
    raises("^weights%['a'%] must be an integer from 1 to 1000000, not 0", function() seriatim.pop("a", { weights = { a = 0 } }) end)
    raises("^weights%['b'%] must be an integer .*, not nil$", function() seriatim.pop({ "a", "b" }, { weights = { a = 1 } }) end)
    raises("^weights: 'a' is named twice$", function()
      seriatim.pop("a", { weights = { a = 1, [seriatim.worker { name = "Twice", queue_name = "a" }] = 2 } })
    end)
    raises("^weights: 'c' is none of the queues$", function() seriatim.pop({ "a", "b" }, { weights = { c = 1 } }) end)
  end)

  it("refuses wrong arguments of a delivery's methods", function()
    orders:perform_async { { id = 1 } }
    local delivery = pop()
    raises("^ack needs a colon, as in delivery:ack%(%.%.%.%), not nil$", function() delivery.ack() end)
    raises("^error must be a text or an error value, not nil$", function() delivery:fail() end)
    raises("^retry_in must be a number of seconds from 0 to 3155760000, not %-1", function() delivery:fail("e", { retry_in = -1 }) end)
    raises("^unknown option 'in'; known are retry_in$", function() delivery:fail("e", { ["in"] = 1 }) end)
    raises("^seconds must be a number of seconds from 0 to 31536000, not '1'", function() delivery:extend("1") end)
    raises("^seconds must be a number of seconds from 0 to 3155760000, not nil", function() delivery:snooze() end)
    raises("^unknown option 'pay'; known are payload$", function() delivery:snooze(1, { pay = 1 }) end)
    raises("^payload: ", function() delivery:snooze(1, { payload = print }) end)
    raises("^count must be an integer from 0 to 1, not 2", function() delivery:checkpoint(2) end)
    assert.is_true(delivery:ack())
  end)

  it("R-POP-20: makes a delivery from a token, with the worker's codec and without payloads", function()
    local named = jobs.worker("Named", nil, { codec = "raw" })
    named:perform_async { { id = 1, payload = "a" }, { id = 1, payload = "b" } }
    local popped = pop(nil, "Named")
    local made = seriatim.delivery(popped.token)
    assert.are.same({ popped.id, "Named", popped.fence, popped.token }, { made.id, made.queue, made.fence, made.token })
    assert.are.same({ {}, {}, {}, 0, -1, false }, { made.payloads, made.scores, made.contexts, made.deliveries, made.retry_count, made.more })
    assert.is_nil(made.error)
    raises("^count must be an integer from 0 to 2, not 3", function() made:checkpoint(3) end)
    assert.is_true(made:snooze(0, { payload = "c" }))
    assert.are.same({ "c", "b" }, pop(nil, "Named").payloads)
    local acknowledged, err = made:ack()
    assert.is_nil(acknowledged)
    assert.is_true(seriatim.is_error(err, "STALE"), tostring(err))
  end)

  it("gives an error through load_error", function()
    seriatim.load_error = function(text) return "L:" .. text end
    orders:perform_async { { id = 1 } }
    pop():fail("no", { retry_in = 0 })
    assert.are.equal("L:no", pop().error)
  end)

  it("refuses what is no token", function()
    raises("^token must be a string, not nil", function() seriatim.delivery() end)
    for _, token in ipairs { "", ("x"):rep(100), ("\0"):rep(5000), "é" } do
      raises("^token: the text is no token of a delivery$", function() seriatim.delivery(token) end)
    end
  end)

  it("runs no middleware", function()
    local called = {}
    local function noting(name)
      return function(_, _, next)
        called[#called + 1] = name
        return next()
      end
    end
    seriatim.client_middlewares, seriatim.server_middlewares = { noting "client" }, { noting "server" }
    orders:perform_async { { id = 1 } }
    assert.is_true(pop():ack())
    assert.are.same({ "client" }, called)
  end)

  it("returns nil and an error if Redis cannot be reached", function()
    seriatim.redis = "redis://127.0.0.1:1"
    local delivery, err = seriatim.pop("a", { wait = 0 })
    assert.is_nil(delivery)
    assert.is_true(seriatim.is_error(err, "IO"), tostring(err))
  end)
end)
