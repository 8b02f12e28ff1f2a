-- F9, F32: whatever way user code takes to leave, it is the failure of that job alone.

local seriatim = require "seriatim"
local batches = require "seriatim.server.batch"
local jobs = require "support.jobs"
local suite = require "support.suite"
local ways = require "support.ways"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local function a_minute()
  return 60
end

---What may be done in this very state.
local LEAVE = { ways.in_a_server[1] }
for _, way in ipairs(ways.everywhere) do
  LEAVE[#LEAVE + 1] = way
end

describe("a job that leaves by", function()
  for _, case in ipairs(LEAVE) do
    it("F9 " .. case[1] .. " has failed, and the next one runs", function()
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
  { "retry_in that gives a text of digits", gives("60") },
  { "retry_in that gives a table", gives({}) },
  { "retry_in that gives 10^300", gives(1e300) },
  { "retry_in that gives infinity", gives(math.huge) },
  { "retry_in that gives minus infinity", gives(-math.huge) },
  { "retry_in that yields", coroutine.yield },
  { "format_error that raises", a_minute, { format_error = raise } },
  { "format_error that gives nil", a_minute, { format_error = gives(nil) } },
  { "format_error that yields", a_minute, { format_error = coroutine.yield } },
  { "format_error that gives 3 MB", a_minute, { format_error = function() return ("x"):rep(3e6) end } },
  { "dump_error that raises", a_minute, { dump_error = raise } },
  { "dump_error that gives a number", a_minute, { dump_error = gives(5) } },
  { "a middleware that raises", a_minute, { server_middlewares = { raise } } },
  { "a middleware that yields", a_minute, { server_middlewares = { coroutine.yield } } },
}

describe("a node survives", function()
  for _, case in ipairs(SPOILED) do
    it("F32 " .. case[1], function()
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

describe("a node goes on after", function()
  -- name, options of the worker, settings of the module
  local DYING = {
    { "retries_exhausted that raises", { retries_exhausted = raise } },
    { "retries_exhausted that yields", { retries_exhausted = coroutine.yield } },
    { "retries_exhausted that changes what it gets", { retries_exhausted = function(list) list[1].id = nil end } },
    { "load_error that raises", {}, { load_error = raise } },
    { "load_error that gives nil", {}, { load_error = gives(nil) } },
    { "a codec that raises when it is asked again", { codec = { tostring, function(data)
      if debug.traceback():find("exhausted", 1, true) then raise() end
      return data
    end } } },
  }

  for _, case in ipairs(DYING) do
    it("F32 " .. case[1], function()
      local options = { max_retry_count = 0, retry_in = a_minute }
      for name, value in pairs(case[2]) do
        options[name] = value
      end
      for name, value in pairs(case[3] or {}) do
        seriatim[name] = value
      end
      local recorder = jobs.worker("Dying", function(payloads_by_id) return payloads_by_id.bad and raise() end, options)
      jobs.serve(recorder)
      recorder:perform_async { { id = "bad", payload = "x" }, { id = "good", payload = "x" } }
      jobs.eventually(function()
        return jobs.includes(recorder:metrics(), { processed = 1, failed = 1, morgue_length = 1, length = 0, busy = 0 })
      end)
    end)
  end
end)

describe("a batch", function()
  it("F32 runs again at once when retry_in is negative", function()
    local recorder = jobs.worker("Hooks", raise, { max_retry_count = 2, retry_in = gives(-5) })
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    jobs.runs(recorder, 3)
  end)

  it("keeps single outcomes; the others share the call's", function()
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

  it("F32 an outcome that cannot be recorded is a failure of its id alone", function()
    local recorder = jobs.worker("Spoiled", function(_, batch)
      batch:fail("a", "boom")
      batch:snooze("b", 1)
      batch:done("c")
      batch:snooze("d", 60)
      batches.outcome(batch, "b").payload = ("x"):rep(1048577)
    end, { batch_size = 9, shards_count = 1, retry_in = gives(setmetatable({}, { __tostring = raise })) })
    recorder:perform_async { { id = "a" }, { id = "b" }, { id = "c" }, { id = "d" } }
    jobs.serve(recorder)
    jobs.eventually(function() return jobs.includes(recorder:metrics(), { processed = 1, failed = 2, busy = 0 }) end)
    local found = recorder.queries:fetch { "a", "b", "d" }
    assert.same({ 0, 0, -1 }, { found[1].retry_count, found[2].retry_count, found[3].retry_count })
    assert.is_true(found[1].error ~= nil and found[2].error ~= nil)
    assert.equal(1, #jobs.recorded(recorder))
  end)

  it("gives fences that rise, scores, contexts and the retry count", function()
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

  it("refuses an outcome for an id that it does not hold", function()
    local recorder = jobs.worker("Batch", function(_, batch) batch:fail("other", "x") end, { retry_in = a_minute })
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    local record = jobs.eventually(function()
      local found = recorder.queries:fetch({ 1 })[1]
      return found and found.error and found
    end)
    assert.matches("the batch holds no id 'other'", record.error)
  end)

  it("is done when a middleware does not continue", function()
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
