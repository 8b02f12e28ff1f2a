-- The connection of a Lua state: its settings, its errors, its URL.

local Connection = require "seriatim.client.connection"
local pool = require "seriatim.client.pool"
local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises

describe("the pool", function()
  local recorder

  before_each(function() recorder = jobs.worker("Pool") end)

  it("has one connection for all uses, also after errors", function()
    recorder:perform_async { { id = 1 } }
    for _ = 1, 5 do
      raises("", function() recorder.queries:range_by_id("bad", "+") end)
      raises("", function() recorder:perform_async { { id = ("x"):rep(2000) } } end)
      assert.equal(1, recorder:metrics().length)
    end
    assert.equal(1, suite.redis:clients())
  end)

  it("is replaced when its settings change, and a lent connection is closed when it comes back", function()
    recorder:perform_async { { id = 1 } }
    local old, lent = pool.current(), nil
    pool.ask(function(connection)
      lent = connection
      seriatim.client_pool_size = 3
      recorder:perform_async { { id = 2 } }
      assert.is_true(pool.current() ~= old)
    end)
    assert.same({}, old.idle)
    local result, err = lent:call("nodes", nil)
    assert.same({ nil, "CLOSED" }, { result, err.kind })
    assert.equal(1, suite.redis:clients())
  end)

  it("drops an operation that raises before its end, and passes the error on", function()
    local ok, raised = pcall(pool.ask, function(connection)
      connection.transport.link:nodes()
      error({ mine = true })
    end)
    assert.is_true(not ok and raised.mine)
    assert.equal(1, recorder:perform_async({ { id = 1 } }).added)
  end)

  it("returns a runtime failure that an operation raised", function()
    local weather = require("seriatim.errors").new("IO", "gone")
    local result, err = pool.ask(function() error(weather, 0) end)
    assert.is_nil(result)
    assert.equal(weather, err)
  end)

  it("ends a wait for Redis that does not answer, and goes on with another socket", function()
    recorder:perform_async { { id = "first" } }
    suite.redis:call("CLIENT", "PAUSE", "60000", "WRITE")
    local connection = Connection.open(seriatim.redis, "seriatim")
    local number = connection:number(recorder:queue_settings())
    local result, err = connection:call("action", number, "perform_all_jobs_now", nil, 0.2)
    suite.redis:call("CLIENT", "UNPAUSE")
    assert.same({ nil, "TIMEOUT" }, { result, err.kind })
    assert.equal(0, connection:call("action", number, "delete_all_failed_jobs", nil, 30))
    connection:close()
  end)

  it("survives the end of its connection", function()
    recorder:perform_async { { id = 1 } }
    suite.redis:call("CLIENT", "KILL", "TYPE", "normal")
    assert.equal(1, recorder:perform_async({ { id = 2 } }).added)
    assert.equal(2, recorder:metrics().length)
  end)

  it("uses another transport when one is given", function()
    local plain, opened = require "seriatim.client.transport", 0
    pool.use { open = function(...)
      opened = opened + 1
      return plain.open(...)
    end }
    recorder:perform_async { { id = 1 } }
    recorder:perform_async { { id = 2 } }
    pool.use(plain)
    assert.equal(1, opened)
    assert.equal(2, recorder:metrics().length)
  end)
end)

describe("the URL", function()
  local recorder

  before_each(function() recorder = jobs.worker("Url") end)

  it("may be returned by a function, and is refused when it is invalid", function()
    seriatim.redis = function() return suite.redis.url end
    assert.equal(1, recorder:perform_async({ { id = 1 } }).added)
    seriatim.redis = function() return 5 end
    raises("^redis must be a URL, or a function that gives one, not 5 %(number%)$", function()
      recorder:perform_async { { id = 1 } }
    end)
    seriatim.redis = function() return "http://x" end
    local raised = raises("^redis must be a URL, or a function that gives one: the scheme must be .*, not http://$", function()
      recorder:perform_async { { id = 1 } }
    end)
    assert.matches("pool_spec.lua:%d+: seriatim: ", raised)
  end)

  it("is found in the environment", function()
    local program = [[print((require "seriatim".redis_url()))]]
    local variables = { REDIS_URL = "redis://third" }
    local function found()
      return (suite.run(variables, program):gsub("%s+$", ""))
    end
    assert.equal("redis://third", found())
    variables.REDIS_PROVIDER = "OURS"
    assert.equal("redis://third", found())
    variables.OURS = "redis://second"
    assert.equal("redis://second", found())
    variables.SERIATIM_REDIS_URL = "redis://first"
    assert.equal("redis://first", found())
  end)

  it("of the environment is refused by the name of its variable", function()
    local program = [[local s = require "seriatim"; print(pcall(s.push, s.worker { name = "A" }, { { id = 1 } }))]]
    local said = "seriatim: %s must be a URL, not '5' %%(string%%): the scheme must be redis://"
    assert.matches(said:format("REDIS_URL"), suite.run({ REDIS_URL = "5" }, program))
    assert.matches(said:format("OURS"), suite.run({ REDIS_PROVIDER = "OURS", OURS = "5", REDIS_URL = "redis://h" }, program))
  end)

  it("is a private Redis' where there is no other, but not in production", function()
    local program = [[local s = require "seriatim"; local p = require "seriatim.client.private_redis"
      local result, err = s.worker { name = "A" }:perform_async { { id = 1 } }
      print(result and result.added, err, p.is_used()); p.release(); print(p.is_used())]]
    local folder = suite.redis.folder .. "/private"
    local text = suite.run({ SERIATIM_DATA = folder }, program)
    assert.matches("started the private Redis in " .. folder:gsub("%-", "%%-") .. "; set REDIS_URL", text)
    assert.matches("1%s+nil%s+true\nfalse", text)
    text = suite.run({ SERIATIM_DATA = folder, APP_ENV = "production" }, program)
    assert.matches(":2: seriatim: no Redis: set REDIS_URL or seriatim.redis", text)
  end)

  it("never shows its password", function()
    local connection = Connection.open("redis://user:secret@127.0.0.1:1/0", "seriatim")
    local _, err = connection:call("layout", connection:number(recorder:queue_settings()), 0.3)
    assert.is_true(seriatim.is_error(err))
    assert.is_nil((connection:url() .. tostring(err)):find("secret"))
    assert.matches("user", connection:url())
  end)
end)
