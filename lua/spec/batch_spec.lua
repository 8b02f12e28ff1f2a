-- A delivery from its reading to its settling, in this Lua state: outcomes, errors, hooks, payloads, what a batch tells.
local execution = require "seriatim.server.execution"
local support_jobs = require "support.jobs"
local log = require "seriatim.log"
local logged = require "support.logged"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"

local formats = seriatim.format_error -- the default one

describe("a delivery", function()
  suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

  local server, number

  before_each(function()
    seriatim.lease_time = 5
    number, server = (number or 0) + 1, nil
  end)

  local function worker(perform, options)
    local made = { name = "Batch" .. number, shards_count = 1, perform = perform, retry_in = function() return 60 end }
    for name, value in pairs(options or {}) do
      made[name] = value
    end
    return seriatim.worker(made)
  end

  ---Pushes the jobs and runs until `count` calls of perform have ended.
  local function run(made, jobs, count)
    assert(made:perform_async(jobs))
    server = server or support_jobs.serve(made)
    support_jobs.eventually(function()
      local figures = assert(made:metrics())
      return figures.processed + figures.failed >= (count or #jobs) and figures.busy == 0
    end)
  end

  local function errors_of(made)
    local found = {}
    for _, record in ipairs(assert(made.queries:range_by_retry_count(0, "+inf"))) do
      found[record.id] = record.error
    end
    return found
  end

  it("gives payloads by id and the batch", function()
    local seen
    local made = worker(function(payloads_by_id, batch)
      seen = { payloads_by_id = payloads_by_id, ids = batch.ids, shard = batch.shard, worker = batch.worker }
      seen.read, seen.length, seen.integer = batch.a, #batch.ids, batch[7]
      seen.fence, seen.scores, seen.retry_count = batch:fence("a"), batch:scores("a"), batch:retry_count("a")
      seen.contexts, seen.error = batch:contexts("a"), batch:error("a")
    end, { batch_size = 10 })
    run(made, {
      { id = "a", payload = { b = 1 }, score = 2, context = { tenant = "x" } },
      { id = "a", payload = seriatim.null, score = 1 },
      { id = 7, payload = "seven" },
    }, 2)
    assert.same({ seriatim.null, { b = 1 } }, seen.payloads_by_id.a)
    assert.same({ "seven" }, seen.integer)
    assert.equal(seen.payloads_by_id.a, seen.read)
    assert.same({ 1, 2 }, seen.scores)
    assert.same({ {}, { tenant = "x" } }, seen.contexts)
    assert.equal(-1, seen.retry_count)
    assert.equal(made, seen.worker)
    assert.equal(2, seen.length)
    assert.equal(0, seen.shard)
    assert.is_true(seen.fence > 1e15)
    assert.is_nil(seen.error)
  end)

  it("takes outcomes of single ids; the others share the call's", function()
    local made = worker(function(_, batch)
      batch:done("a")
      batch:fail("b", "own")
      error({ message = "shared" })
    end, { batch_size = 10 })
    run(made, { { id = "a" }, { id = "b" }, { id = "c" } })
    assert.same({ b = "own", c = "shared" }, errors_of(made))
  end)

  it("knows its ids, whatever perform does with payloads_by_id", function()
    local made = worker(function(payloads_by_id, batch)
      for id in pairs(payloads_by_id) do
        payloads_by_id[id] = nil
        batch:done(id)
      end
      payloads_by_id.c = {}
      batch:fail("c", "not of the batch")
    end, { batch_size = 10 })
    run(made, { { id = "a" }, { id = "b" } })
    assert.same({}, errors_of(made))
    assert.equal(2, assert(made:metrics()).processed)
  end)

  it("keeps the outcome of each id, whatever perform does with batch.ids", function()
    local reversing = worker(function(_, batch)
      local ids = batch.ids
      ids[1], ids[#ids] = ids[#ids], ids[1]
      for _, id in ipairs(ids) do
        batch:fail(id, "of " .. id)
      end
    end, { batch_size = 10 })
    run(reversing, { { id = "a" }, { id = "b" }, { id = "c" } })
    assert.same({ a = "of a", b = "of b", c = "of c" }, errors_of(reversing))
  end)

  it("ends each id, whatever perform does with batch.ids", function()
    local emptying = worker(function(_, batch)
      while #batch.ids > 0 do
        batch:done(table.remove(batch.ids))
      end
    end, { batch_size = 10 })
    run(emptying, { { id = "a" }, { id = "b" } })
    assert.same({}, errors_of(emptying))
    assert.equal(2, assert(emptying:metrics()).processed)
  end)

  it("keeps what was raised as text, of whatever kind", function()
    local raised = {
      text = function() error("boom") end,
      bare = function() error("boom", 0) end,
      table = function() error({ message = "told", code = 7 }) end,
      object = function() error(setmetatable({}, { __tostring = function() return "an object" end })) end,
      empty = function() error() end,
      number = function() error(42, 0) end,
      broken = function() error(setmetatable({}, { __tostring = function() error("no") end })) end,
      ["nil, err"] = function() return nil, "returned" end,
      ["false, err"] = function() return pcall(error, "called", 0) end,
    }
    local made = worker(function(payloads_by_id)
      return raised[next(payloads_by_id)]()
    end)
    local jobs = {}
    for id in pairs(raised) do
      jobs[#jobs + 1] = { id = id }
    end
    run(made, jobs)
    local errors = errors_of(made)
    assert.matches("^[^\n]*batch_spec%.lua:%d+: boom$", errors.text)
    assert.equal("boom", errors.bare)
    assert.equal("told", errors.table)
    assert.equal("an object", errors.object)
    assert.equal("nil", errors.empty)
    assert.equal("42", errors.number)
    assert.matches("^table", errors.broken)
    assert.equal("returned", errors["nil, err"])
    assert.equal("called", errors["false, err"])
  end)

  it("logs a failure with its place, and its traceback with -v", function()
    local text = logged(log.DEBUG, function()
      run(worker(function() error({ message = "told" }) end), { { id = "a" } })
    end)
    assert.matches("WARN [^\n]* q=Batch%d+ id=a n=0 elapsed=%d%.%d+ fail told %([^\n]*batch_spec%.lua:%d+%)", text)
    assert.matches("DEBUG [^\n]* traceback stack traceback: | ", text)
    assert.matches("DEBUG [^\n]* n=1 elapsed=[^\n]* start", text)
  end)

  it("fails when the job yields outside a coroutine of its own", function()
    local made = worker(function() coroutine.yield(1) end)
    run(made, { { id = "a" } })
    assert.matches("yield", errors_of(made).a)
  end)

  it("runs middlewares from the outside in; not calling next means done", function()
    local order = {}
    local made = worker(function() table.insert(order, "core") end)
    table.insert(seriatim.server_middlewares, function(who, batch, next)
      table.insert(order, who.name .. " " .. batch.ids[1])
      if batch.ids[1] ~= "skip" then
        next()
      end
    end)
    table.insert(seriatim.server_middlewares, function(_, _, next)
      table.insert(order, "inner")
      return next()
    end)
    run(made, { { id = "a" } })
    run(made, { { id = "skip" } }, 2)
    assert.same({ made.name .. " a", "inner", "core", made.name .. " skip" }, order)
    assert.same({}, errors_of(made))
  end)

  it("gives a middleware the nil, err of perform as an error", function()
    local caught
    table.insert(seriatim.server_middlewares, function(_, _, next)
      local _, err = pcall(next)
      caught = err
    end)
    run(worker(function() return nil, "weather" end), { { id = "a" } })
    assert.equal("weather", caught)
  end)

  it("passes errors through format_error, dump_error and load_error", function()
    seriatim.format_error = function(raised) return "formatted " .. raised.code end
    seriatim.dump_error = function(text) return text:reverse() end
    seriatim.load_error = function(stored) return stored:reverse() .. "!" end
    local seen
    local made = worker(function(_, batch)
      seen = batch:error("a")
      error({ code = 7 })
    end)
    run(made, { { id = "a" } })
    assert.same({ a = "formatted 7!" }, errors_of(made))
    assert.equal(1, made.actions:perform_all_failed_jobs_now())
    support_jobs.eventually(function() return seen end)
    assert.equal("formatted 7!", seen)
  end)

  it("keeps an error's message and the application's lines of the traceback", function()
    seriatim.format_error = formats
    local function deep(depth)
      if depth == 0 then error("deep") end
      deep(depth - 1)
      return depth
    end
    local made = worker(function(payloads_by_id)
      deep(payloads_by_id.short and 1 or 20)
      return true
    end)
    table.insert(seriatim.server_middlewares, function(_, _, continue)
      local result = continue()
      return result
    end)
    run(made, { { id = "short" }, { id = "long" } })
    local here, lines = "batch_spec.lua", {}
    for line in errors_of(made).short:gmatch("[^\n]+") do
      lines[#lines + 1] = line:match("batch_spec%.lua:%d+: deep$") and "deep" or line:match("batch_spec%.lua") or line
    end
    assert.same({ "deep", "[C]: in function 'error'", here, here, here, here }, lines)
    assert.equal(11, select(2, (errors_of(made).long .. "\n"):gsub("\n", "")))
  end)

  it("cuts an error's text before dump_error, so that load_error can read what is stored", function()
    seriatim.dump_error = function(text) return (text:gsub("\195\188", "u")) .. "$" end
    seriatim.load_error = function(stored) return (assert(stored:match("^(.*)%$$")):gsub("u", "\195\188")) end
    seriatim.format_error = tostring
    local made = worker(function() error("x" .. ("\195\188"):rep(200000), 0) end)
    run(made, { { id = "a" } })
    assert.equal("x" .. ("\195\188"):rep(32767), errors_of(made).a)
  end)

  it("dumps a short text that says why, where dump_error fails", function()
    seriatim.dump_error = function(text)
      if text:find("^raise") and not text:find("\n(", 1, true) then
        error("cannot dump", 0)
      end
      return "<" .. (text:find("^grow") and not text:find("\n(", 1, true) and ("x"):rep(70000) or text) .. ">"
    end
    local made = worker(function(_, batch)
      for _, id in ipairs(batch.ids) do
        batch:fail(id, id .. " it\nsecond line")
      end
    end, { batch_size = 2 })
    local text = logged(log.INFO, function()
      run(made, { { id = "raise" }, { id = "grow" } })
    end)
    assert.matches("dump_error gave 70002 bytes", text)
    assert.same({
      raise = "<raise it\n(dump_error raised cannot dump; only the first line of this error is stored)>",
      grow = "<grow it\n(dump_error gave 70002 bytes, of which 65536 may be stored; only the first line of this error is stored)>",
    }, errors_of(made))
  end)

  it("dumps the reason why a payload cannot be read, and shows what load_error cannot read", function()
    seriatim.dump_error = function(text) return "<" .. text .. ">" end
    seriatim.load_error = function() error("cannot load") end
    local made = worker(function() end)
    local raw = seriatim.worker { name = made.name .. "raw", queue_name = made.name, shards_count = 1, codec = "raw" }
    assert(raw:perform_async { { id = "bad", payload = "{" } })
    run(made, {}, 0)
    support_jobs.eventually(function() return assert(made:metrics()).morgue_length == 1 end)
    assert.matches("^<undecodable payload: .*>$", assert(made.queries:morgue_fetch { "bad" })[1].error)
  end)

  it("goes on where a hook fails, and says so", function()
    seriatim.format_error = function() error("format") end
    seriatim.dump_error = function() return nil end
    local made = worker(function() error("boom", 0) end, { retry_in = function() return "soon" end })
    local began = native.time()
    local text = logged(log.INFO, function()
      run(made, { { id = "a" } })
    end)
    assert.matches("format_error raised [^\n]*format", text)
    assert.matches("retry_in%(0%) gave soon; the default formula is used", text)
    assert.matches("^boom", errors_of(made).a)
    local record = assert(made.queries:range_by_retry_count(0, 0))[1]
    assert.is_true(record.perform_in - began > 14 and record.perform_in - native.time() < 47)
  end)

  it("calls retries_exhausted, whose failure is a line in the log", function()
    local told
    local made = worker(function() error("boom", 0) end, {
      max_retry_count = 0,
      retries_exhausted = function(jobs)
        told = jobs
        error("no mail")
      end,
    })
    local text = logged(log.INFO, function()
      assert(made:perform_async { { id = "a", payload = { 1 }, score = 3 } })
      support_jobs.serve(made)
      support_jobs.eventually(function() return told end)
    end)
    assert.same({ { id = "a", payloads = { { { 1 }, 3 } }, payloads_count = 1, error = "boom" } }, told)
    assert.matches("ERROR [^\n]* id=a n=0 elapsed=[%d.]+ dead boom", text)
    assert.matches("retries_exhausted raised [^\n]*no mail", text)
    assert.equal(1, assert(made:metrics()).morgue_length)
  end)

  it("buries a payload that cannot be read and runs the other ids", function()
    local ran = {}
    local made = worker(function(payloads_by_id)
      for id in pairs(payloads_by_id) do
        ran[id] = true
      end
    end, { batch_size = 10 })
    local raw = seriatim.worker { name = made.name .. "raw", queue_name = made.name, shards_count = 1, codec = "raw" }
    assert(raw:perform_async { { id = "bad", payload = "{" }, { id = "good", payload = "1" } })
    run(made, {}, 1)
    support_jobs.eventually(function() return assert(made:metrics()).morgue_length == 1 end)
    assert.same({ good = true }, ran)
    local dead = assert(made.queries:morgue_fetch { "bad" })[1]
    assert.equal("{", dead.payloads[1][1])
    assert.matches("^undecodable payload: ", dead.error)
  end)

  it("reads with the worker's own codec", function()
    local seen
    local made = worker(function(payloads_by_id) seen = payloads_by_id.a end, {
      codec = { function(payload) return payload:upper() end, function(data) return { data } end },
    })
    run(made, { { id = "a", payload = "x" } })
    assert.same({ { "X" } }, seen)
  end)

  it("refuses an id that is not in the batch, at the line of the job", function()
    local made = worker(function(_, batch) batch:done("b") end)
    run(made, { { id = "a" } })
    assert.matches("batch_spec%.lua:%d+: seriatim: the batch holds no id 'b'$", errors_of(made).a)
  end)

  it("extends the time to run of all its ids", function()
    local made = worker(function(_, batch)
      batch:extend(60)
      native.sleep(4)
    end, { ttr = 3 })
    run(made, { { id = "a" } })
    assert.same({}, errors_of(made))
    assert.equal(1, assert(made:metrics()).processed)
  end)

  it("refuses checkpoints and snoozes that cannot be", function()
    local refused = {}
    local made = worker(function(_, batch)
      for _, call in ipairs {
        function() batch:checkpoint("b", 1) end,
        function() batch:checkpoint("a", 2) end,
        function() batch:checkpoint("a", 0.5) end,
        function() batch:snooze("a", -1) end,
        function() batch:snooze("a", 1, { payloads = 1 }) end,
        function() batch:snooze("a", 1, { payload = ("x"):rep(1048575) }) end,
      } do
        refused[#refused + 1] = select(2, pcall(call))
      end
    end)
    run(made, { { id = "a" } })
    assert.same({}, errors_of(made))
    assert.matches("the batch holds no id 'b'", refused[1])
    assert.matches("checkpoint of 2 payloads: the id has 1 in this batch", refused[2])
    assert.matches("count must be an integer", refused[3])
    assert.matches("seconds must be a number", refused[4])
    assert.matches("unknown option 'payloads'", refused[5])
    assert.matches("payload is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and pass its key$", refused[6])
  end)

  it("is settled at once, whatever user code does", function()
    local performs = { function() end, function() error("boom") end, function(_, batch) batch:fail("a", "own") end }
    for place, perform in ipairs(performs) do
      local made = worker(perform, { name = "Settled" .. place })
      local runner = support_jobs.serve(made).runner
      assert(made:perform_async { { id = "a" } })
      local delivery = runner:take(0, 60)
      execution.run({ [delivery:worker()] = made }, delivery)
      assert.equal("CLOSED", (select(2, delivery:settle())), place)
    end
  end)

  it("iterates in the order of its ids", function()
    local walked = {}
    local made = worker(function(_, batch)
      local walk = getmetatable(batch).__pairs
      for id, payloads in walk(batch) do
        walked[#walked + 1] = id .. #payloads
      end
    end, { batch_size = 10 })
    run(made, { { id = "a" }, { id = "b", payload = 1 }, { id = "b", payload = 2 } }, 2)
    table.sort(walked)
    assert.same({ "a1", "b2" }, walked)
  end)
end)
