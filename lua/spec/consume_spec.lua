-- Consuming through the function of seriatim.web.

local browser = require "support.browser"
local jobs = require "support.jobs"
local native = require "seriatim.native"
local suite = require "support.suite"
local web = require "seriatim.web"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

describe("consuming through the dashboard", function()
  local app

  local function consume(name, body)
    return browser.post(app, "/jobs/api/v1/consume/" .. name, body, { ["Sec-Fetch-Site"] = false })
  end

  local function pop(wait)
    return consume("pop", { queues = { "Pulled" }, wait = wait or 0 })
  end

  before_each(function()
    app = web.new { prefix = "/jobs", consume = true, role = function() return "consumer" end }
    assert(jobs.worker("Pulled", nil, { shards_count = 2 }):perform_async { { id = "later", payload = 0, delay = 600 } })
  end)

  it("pushes, pops and reports results", function()
    local pushed = consume("push", { queue = "Pulled", jobs = { { id = "a", payload = { x = 1 } }, { id = "a", payload = 2 } } })
    assert.equal(200, pushed.status)
    assert.equal(1, pushed:json().folded)
    local delivery = pop():json()
    assert.same({ "a", { { x = 1 }, 2 }, 1 }, { delivery.id, delivery.payloads, delivery.deliveries })
    local empty = pop()
    assert.same({ 204, "" }, { empty.status, empty.body })
    assert.is_nil(empty:field("Content-Type"))
    assert.equal(200, consume("release", { token = delivery.token }).status)
    assert.equal(409, consume("ack", { token = delivery.token }).status)
    assert.equal(200, consume("ack", { token = pop():json().token }).status)
    assert.equal(403, browser.get(app, "/jobs/api/v1/stats").status)
  end)

  it("waits as long as it is asked to", function()
    local began = native.now_ms()
    assert.equal(204, pop(0.3).status)
    assert.is_true(native.now_ms() - began >= 300)
    assert(jobs.worker("Pulled", nil, { shards_count = 2 }):perform_async { { id = "soon", payload = 3, delay = 0.2 } })
    assert.equal("soon", pop(30):json().id)
  end)

  -- seriatim-lua web serves others meanwhile. PUC 5.1 cannot yield through its pcall.
  it("lets a pop that waits sleep by a yield", function()
    local yields, response = 0, nil
    local waits = coroutine.wrap(function()
      local sleep = function() assert.equal("awake", coroutine.yield "sleep") end
      local body = native.dump({ queues = { "Pulled" }, wait = 0.3 }, "body")
      local headers = { Host = "example.org", ["Content-Type"] = "application/json" }
      response = app { method = "POST", path = "/jobs/api/v1/consume/pop", headers = headers, body = body, sleep = sleep }
    end)
    while not response and waits "awake" == "sleep" do
      yields = yields + 1
    end
    assert.equal(204, response.status)
    assert.is_true(yields >= 3) -- it asks every 100 ms
  end)

  it("answers 500 where a pop that waits fails", function()
    local body = native.dump({ queues = { "Pulled" }, wait = 0.3 }, "body")
    local headers = { Host = "example.org", ["Content-Type"] = "application/json" }
    local request = { method = "POST", path = "/jobs/api/v1/consume/pop", headers = headers, body = body }
    for _ = 1, 3 do -- more often than pops may wait at once
      request.sleep = function() error "broken" end
      assert.equal(500, app(request).status)
    end
    request.sleep = function() end
    assert.equal(204, app(request).status)
  end)

  it("R-HTTP-7: lets as many pops of a mount wait as it says, whatever waits in others", function()
    local other = web.new { prefix = "/other", consume = true, polls = 1 }
    local body = native.dump({ queues = { "Pulled" }, wait = 0.2 }, "body")
    local function waiting_pop(mount, prefix, sleep)
      local headers = { Host = "example.org", ["Content-Type"] = "application/json", ["Sec-Fetch-Site"] = "same-origin" }
      return mount { method = "POST", path = prefix .. "/api/v1/consume/pop", headers = headers, body = body, sleep = sleep }
    end
    local inner
    local outer = waiting_pop(app, "/jobs", function()
      inner = inner or waiting_pop(app, "/jobs", function()
        assert.equal(503, waiting_pop(app, "/jobs", function() end).status)
        assert.equal(204, waiting_pop(other, "/other", function() end).status)
      end)
    end)
    assert.same({ 204, 204 }, { outer.status, inner.status })
  end)

  it("is off by default", function()
    app = web.new { prefix = "/jobs" }
    local answer = pop()
    assert.equal(404, answer.status)
    assert.truthy(answer:json().error:find("consume: true", 1, true))
    assert.has_error(function() web.new { polls = 0 } end)
  end)
end)

-- The channel to the threads of changes holds few connections: more clients may begin a pop at the same moment.
describe("the threads of the dashboard", function()
  it("hand a connection over as soon as the channel has room for it", function()
    local stand_alone = require "seriatim.web.stand_alone"
    local given, taken = native.channel()
    local count = 0
    while native.channel():hand_over(given) do
      count = count + 1
      assert(count < 100000, "the channel is never full")
    end
    local server = stand_alone.new(assert(native.listen("127.0.0.1", 0)), error, given)
    local visitor, socket = native.channel()
    visitor:send("POST /api/v1/consume/pop HTTP/1.1\r\n", 1)
    server:add(socket)
    for _ = 1, 5 do
      server:step(0.02)
    end
    assert.is_nil(visitor:receive()) -- no 503
    for _ = 1, count do
      assert(taken:take())
    end
    local handed
    jobs.eventually(function()
      server:step(0.02)
      handed = taken:take()
      return handed
    end)
    assert.equal("POST", handed:receive():sub(1, 4))
  end)
end)
