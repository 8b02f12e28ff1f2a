-- How long a push may take, whatever happens to Redis.

local RedisServer = require "support.redis_server"
local jobs = require "support.jobs"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

describe("push_timeout", function()
  local redis, recorder

  before_each(function()
    local port = RedisServer.free_port()
    redis = RedisServer.start("--port " .. port)
    seriatim.redis = "redis://127.0.0.1:" .. port
    recorder = jobs.worker("Limited")
    assert(recorder:perform_async { { id = "first" } })
  end)

  after_each(function()
    redis:signal("CONT")
    redis:remove()
  end)

  local function refused(kind, pattern, options)
    local began = native.now_ms()
    local result, err = recorder:perform_async({ { id = 1 } }, options)
    local took = native.now_ms() - began
    assert.is_nil(result)
    assert.equal(kind, err.kind)
    assert.matches(pattern, err.message)
    assert(took > 450 and took < 20000, took)
  end

  it("F4, R-TIMEOUT-1: a stopped Redis leaves the outcome unknown after that time", function()
    redis:signal("STOP")
    refused("UNKNOWN_OUTCOME", "outcome unknown", { push_timeout = 0.5 })
    seriatim.push_timeout = 0.6
    refused("TIMEOUT", "timed out") -- nothing of this one was sent
  end)

  it("F5, R-TIMEOUT-2: a Redis that was killed before the push is an error that says so: nothing was sent", function()
    redis:call("SHUTDOWN", "NOSAVE")
    native.sleep(0.1)
    refused("IO", "cannot connect to .*refused; start Redis there, or correct seriatim%.redis$", { push_timeout = 0.5 })
  end)

  it("R-TIMEOUT-3: includes the wait for replicas, whose error says that the push is written", function()
    local options = { wait_replicas = 1, wait_timeout = 10, push_timeout = 0.9 }
    local is_told, raised
    for _ = 1, 5 do -- Redis has a quarter of a second to answer; it may be busy
      is_told, raised = pcall(refused, "NOT_REPLICATED", "the push is written, 0 of 1 replicas have it", options)
      if is_told then return end
    end
    error(raised, 0)
  end)

  it("R-TIMEOUT-4: is from 0.1 to 50 seconds", function()
    for _, given in ipairs { 0.09, 50.1, "1" } do
      suite.raises("^push_timeout must be", function() seriatim.push_timeout = given end)
    end
    suite.raises("^push_timeout must be", function() recorder:perform_async({ { id = 1 } }, { push_timeout = 51 }) end)
    seriatim.reset_settings()
    assert.equal(10, seriatim.push_timeout)
  end)
end)
