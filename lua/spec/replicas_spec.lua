-- A push that waits for its replicas; a master that sentinels name. Real replicas and a real sentinel.

local RedisServer = require "support.redis_server"
local command = require "support.command"
local jobs = require "support.jobs"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"

local eventually, raises = command.eventually, suite.raises

local function pair()
  local port = RedisServer.free_port()
  local master = RedisServer.start("--port " .. port .. " --repl-diskless-sync-delay 0")
  local other = RedisServer.free_port()
  local replica = RedisServer.start("--port " .. other .. " --replicaof 127.0.0.1 " .. port)
  eventually(function() return master:call("INFO", "replication"):find("state=online", 1, true) end)
  master.port, replica.port = port, other
  return master, replica
end

local function some(count)
  local list = {}
  for id = 1, count do
    list[id] = { id = id, payload = ("x"):rep(100) }
  end
  return list
end

describe("wait_replicas", function()
  local master, replica, recorder

  setup(function() master, replica = pair() end)
  teardown(function()
    replica:remove()
    master:remove()
  end)
  before_each(function()
    seriatim.reset_settings()
    seriatim.redis = master.url
    master:flush()
    eventually(function() return master:call("INFO", "replication"):find("state=online", 1, true) end)
    recorder = jobs.worker("Replicated")
  end)
  after_each(function()
    os.execute("kill -CONT " .. replica.pid)
    seriatim.reset_settings()
  end)

  ---While the replica answers nothing.
  local function without_replica(work)
    os.execute("kill -STOP " .. replica.pid)
    work()
    os.execute("kill -CONT " .. replica.pid)
  end

  it("R-REPLICAS-1: returns when the replica has the push", function()
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 10
    for round = 1, 3 do
      local result = assert(recorder:perform_async(some(2000)))
      assert.same({ round == 1 and 2000 or 0, round == 1 and 0 or 2000 }, { result.added, result.folded })
      assert.equal(master:call("DBSIZE"), replica:call("DBSIZE"))
    end
    assert.equal(1, assert(recorder:perform_async({ { id = "one" } }, { wait_replicas = 1, wait_timeout = 10 })).added)
  end)

  it("R-REPLICAS-2: says that too few replicas have the push, and that it is written", function()
    without_replica(function()
      local began = native.now_ms()
      local result, err = recorder:perform_async(some(3), { wait_replicas = 1, wait_timeout = 0.3 })
      assert.is_nil(result)
      assert.is_true(seriatim.is_error(err, "NOT_REPLICATED"))
      assert.matches("written, 0 of 1", err.message)
      assert.same({ added = 3, folded = 0, refused = 0, refused_at = {}, scheduled = 0, stale = 0, handles = {} }, err.result)
      assert.is_true(native.now_ms() - began >= 250)
      assert.equal(3, assert(recorder:metrics()).length)
      assert.equal(3, assert(recorder:perform_async(some(3))).folded) -- asks none
    end)
    assert.equal(3, assert(recorder:perform_async(some(3), { wait_replicas = 1, wait_timeout = 10 })).folded)
    local _, err = recorder:perform_async(some(3), { wait_replicas = 2, wait_timeout = 4 })
    assert.matches("1 of 2", err.message)
  end)

  it("R-REPLICAS-3: takes the module's settings unless a push gives its own; middlewares get the same arguments", function()
    local seen = 0
    seriatim.client_middlewares = { function(_, _, next_one)
      seen = seen + 1
      return next_one()
    end }
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 0.05
    without_replica(function()
      assert.equal("NOT_REPLICATED", select(2, recorder:perform_async(some(1))).kind)
      assert.equal("NOT_REPLICATED", select(2, recorder.queue:push(some(1))).kind)
      assert.equal("NOT_REPLICATED", select(2, seriatim.push(recorder, some(1))).kind)
      assert.equal(1, assert(recorder:perform_async(some(1), { wait_replicas = 0 })).folded)
      assert.equal(1, assert(recorder.queue:push(some(1), { wait_replicas = 0 })).folded)
      assert.equal(0, assert(recorder:perform_async({})).added)
    end)
    assert.equal(6, seen)
  end)

  it("R-REPLICAS-4: refuses numbers out of range before anything is written", function()
    raises("^wait_replicas must be an integer from 0 to 1000, not %-1", function() seriatim.wait_replicas = -1 end)
    raises("^wait_timeout must be", function() seriatim.wait_timeout = 0 end)
    raises("^wait_replicas must be", function() recorder:perform_async(some(1), { wait_replicas = "1" }) end)
    raises("^wait_timeout must be", function() recorder:perform_async(some(1), { wait_timeout = 0 / 0 }) end)
    raises("unknown option 'wait'", function() recorder:perform_async(some(1), { wait = 1 }) end)
    raises("options must be a table", function() recorder:perform_async(some(1), 1) end)
    assert.equal(0, assert(recorder:metrics()).length)
  end)
end)

describe("redis+sentinel://", function()
  it("F6 pushes and jobs follow the master", function()
    local master, replica = pair()
    local port, ask, stop_sentinel = RedisServer.start_sentinel(master, "mine", master.port)
    eventually(function() return ask("SENTINEL", "replicas", "mine"):find(replica.port, 1, true) end)
    seriatim.reset_settings()
    seriatim.redis = ("redis+sentinel://127.0.0.1:1,127.0.0.1:%s/mine"):format(port)
    seriatim.lease_time = 5
    local recorder = jobs.worker "Followed"
    assert.equal(1, assert(recorder:perform_async({ { id = "before" } }, { wait_replicas = 1, wait_timeout = 10 })).added)
    jobs.serve(recorder)
    jobs.runs(recorder)
    os.execute("kill -KILL " .. master.pid)
    local result = eventually(function()
      return (recorder:perform_async { { id = "after" } })
    end, 100)
    assert.equal(1, result.added + result.folded)
    assert.same({ after = { "" } }, jobs.runs(recorder, 1, 100)[1].payloads)
    jobs.stop_servers()
    seriatim.reset_settings()
    stop_sentinel()
    replica:remove()
    os.execute("rm -rf " .. command.quote(master.folder))
  end)
end)
