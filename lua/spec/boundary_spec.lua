-- F9, F32: whatever way user code takes to leave, it is the failure of that job alone.

local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local function a_minute()
  return 60
end

local function deep()
  return deep() .. ""
end

local mute = setmetatable({}, { __tostring = function() error("no") end })
local endless = setmetatable({}, { __index = function() error("no field") end })

-- name, what the job does, and what is kept of it
local LEAVE = {
  { "an error with its place", function() error("plain") end, "boundary_spec.lua:%d+: plain$" },
  { "an error without its place", function() error("plain", 0) end, "^plain$" },
  { "a table with a message", function() error { message = "of mine" } end, "^of mine$" },
  { "a table with a text", function() error(setmetatable({}, { __tostring = function() return "texted" end })) end, "^texted$" },
  { "a bare table", function() error({}) end, "table" },
  { "nil", function() error(nil) end, "." },
  { "a number", function() error(42, 0) end, "^42$" },
  { "a function", function() error(print) end, "." },
  { "a table without a text", function() error(mute) end, "." },
  { "a table that has no fields", function() error(endless) end, "." },
  { "an empty text", function() error("", 0) end, "." },
  { "bytes that are no text", function() error("a\255\0b", 0) end, "a" },
  { "a stack overflow", deep, "stack overflow" },
  { "an index of nil", function() return seriatim.nothing.field end, "attempt to index" },
  { "a module that is not there", function() require "no.such.module" end, "no.such.module" },
  { "a syntax error", function() assert((loadstring or load)("1 +")) end, "unexpected" },
  { "the way of Lua's libraries", function() return nil, "reason" end, "^reason$" },
  { "a yield", function() coroutine.yield() end, "." },
  { "misuse of Seriatim", function() seriatim.lease_time = "x" end, "lease_time must be" },
  { "weather of Seriatim", function() error(require("seriatim.errors").new("IO", "gone")) end, "gone" },
}

describe("a job that leaves by", function()
  for _, case in ipairs(LEAVE) do
    it(case[1] .. " has failed, and the next one runs", function()
      local recorder = jobs.worker("Leave", function(payloads_by_id)
        if payloads_by_id.bad then
          return case[2]()
        end
      end, { shards_count = 1, retry_in = a_minute })
      jobs.serve(recorder)
      recorder:perform_async { { id = "bad" } }
      jobs.runs(recorder)
      local record = jobs.eventually(function()
        local found = recorder.queries:fetch({ "bad" })[1]
        return found and found.error and found
      end)
      assert.matches(case[3], record.error)
      assert.equal(0, record.retry_count)
      recorder:perform_async { { id = "good" } }
      assert.same({ good = { "" } }, jobs.runs(recorder)[1].payloads)
      jobs.eventually(function() return recorder:metrics().processed == 1 end)
      assert.is_true(jobs.includes(recorder:metrics(), { processed = 1, failed = 1, busy = 0 }))
    end)
  end
end)

local function raise()
  error("hook")
end

local function gives(value)
  return function() return value end
end

-- name, the worker's retry_in, and settings of the module
local SPOILED = {
  { "retry_in that raises", raise },
  { "retry_in that gives NaN", gives(0 / 0) },
  { "retry_in that gives nil", gives(nil) },
  { "retry_in that gives a text", gives("soon") },
  { "retry_in that gives infinity", gives(math.huge) },
  { "retry_in that gives minus infinity", gives(-math.huge) },
  { "retry_in that yields", coroutine.yield },
  { "format_error that raises", a_minute, { format_error = raise } },
  { "format_error that gives nil", a_minute, { format_error = gives(nil) } },
  { "dump_error that raises", a_minute, { dump_error = raise } },
  { "dump_error that gives a number", a_minute, { dump_error = gives(5) } },
  { "a middleware that raises", a_minute, { server_middlewares = { raise } } },
  { "a middleware that yields", a_minute, { server_middlewares = { coroutine.yield } } },
}

describe("a node survives", function()
  for _, case in ipairs(SPOILED) do
    it(case[1], function()
      local recorder = jobs.worker("Hooks", raise, { batch_size = 5, shards_count = 1, retry_in = case[2], max_retry_count = 99 })
      for name, value in pairs(case[3] or {}) do
        seriatim[name] = value
      end
      recorder:perform_async { { id = 1 }, { id = 2 } }
      jobs.serve(recorder)
      jobs.eventually(function() return recorder:metrics().failed >= 2 end)
      jobs.stop_servers()
      local found = recorder.queries:fetch { 1, 2 }
      assert.is_true(found[1].error ~= nil and found[2].error ~= nil)
      assert.is_true(jobs.includes(recorder:metrics(), { retries = 2, busy = 0 }))
    end)
  end
end)

describe("a batch", function()
  it("that runs again at once is one whose retry_in is negative", function()
    local recorder = jobs.worker("Hooks", raise, { max_retry_count = 2, retry_in = gives(-5) })
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    jobs.runs(recorder, 3)
  end)

  it("has single outcomes; the others share the call's", function()
    local recorder = jobs.worker("Single", function(_, batch)
      batch:done("b")
      batch:fail("c", "own")
      error("shared", 0)
    end, { batch_size = 5, shards_count = 1, retry_in = a_minute })
    recorder:perform_async { { id = "a" }, { id = "b" }, { id = "c" } }
    jobs.serve(recorder)
    jobs.eventually(function() return recorder:metrics().retries == 2 end)
    local found = recorder.queries:fetch { "a", "b", "c" }
    assert.same({ "a", "shared", "c", "own" }, { found[1].id, found[1].error, found[2].id, found[2].error })
  end)

  it("tells rising fences, scores, contexts and the retry count", function()
    local seen = {}
    local recorder = jobs.worker("Batch", function(_, batch)
      table.insert(seen, { batch:fence(1), batch:scores(1), batch:contexts("1"), batch:retry_count("1"), batch["1"] })
    end)
    jobs.serve(recorder)
    for number = 0, 1 do
      recorder:perform_async { { id = 1, payload = number, score = 5, context = { tenant = "t" .. number } } }
      jobs.runs(recorder)
    end
    assert.is_true(seen[2][1] > seen[1][1])
    table.remove(seen[1], 1)
    assert.same({ { 5 }, { { tenant = "t0" } }, -1, { 0 } }, seen[1])
  end)

  it("refuses an outcome of an id that it does not hold", function()
    local recorder = jobs.worker("Batch", function(_, batch) batch:fail("other", "x") end, { retry_in = a_minute })
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    local record = jobs.eventually(function()
      local found = recorder.queries:fetch({ 1 })[1]
      return found and found.error and found
    end)
    assert.matches("the batch holds no id 'other'", record.error)
  end)

  it("that a middleware does not run is done", function()
    local recorder = jobs.worker("Stopped")
    local seen = {}
    seriatim.server_middlewares = { function(worker, batch) table.insert(seen, { worker, batch.ids[1] }) end }
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    jobs.eventually(function() return recorder:metrics().processed == 1 end)
    assert.same({ { recorder, "1" } }, seen)
    assert.same({}, jobs.recorded(recorder))
  end)
end)
