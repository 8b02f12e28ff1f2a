-- Workers: settings, defaults, and which of them a server runs.

local native = require "seriatim.native"
local seriatim = require "seriatim"
local worker_module = require "seriatim.worker"
local workers = require "seriatim.server.workers"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises

local function perform() end

local REFUSED = {
  name = { "", 5 },
  perform = { "x" },
  retry_in = { 5 },
  retries_exhausted = { 5 },
  perform_async = { 5 },
  shards_count = { 0, 4097, "5", 2.5, true },
  batch_size = { 0, 1001 },
  max_retry_count = { -1, 1000001, 1.5 },
  queue_name = { "", ("x"):rep(513), 5 },
  fold = { "union", 1 },
  on_waiting = { "never" },
  on_exhausted = { "explode" },
  ttr = { 0, -1, "5", 0 / 0, 1e9, true },
  serial_shards = { "yes", 1 },
  priority = { 1.5, "high" },
  codec = { "yaml", { 1, 2 }, { print }, 5 },
}

describe("a worker", function()
  it("has defaults", function()
    local plain = seriatim.worker { name = "Plain" }
    assert.same({ 5, 1, 25, 0 }, { plain.shards_count, plain.batch_size, plain.max_retry_count, plain.priority })
    assert.same({ "merge", "keep", "bury" }, { plain.fold, plain.on_waiting, plain.on_exhausted })
    assert.is_nil(plain.ttr)
    assert.is_nil(plain.codec)
    assert.is_nil(plain.perform)
    assert.is_false(plain.serial_shards)
    assert.same({ "Plain", "Plain" }, { plain.name, plain.queue_name })
    assert.equal("seriatim.worker Plain", tostring(plain))
  end)

  for name, values in pairs(REFUSED) do
    it("refuses a bad " .. name, function()
      local plain = seriatim.worker { name = "Plain" }
      for _, value in ipairs(values) do
        raises("^%w+%." .. name .. " must be ", function() plain[name] = value end)
        local options = { name = "Other" }
        options[name] = value
        raises("^%w+%." .. name .. " must be ", function() seriatim.worker(options) end)
      end
    end)
  end

  it("says what is wrong at the caller's line", function()
    local raised = raises("^A%.shards_count must be an integer from 1 to 4096, not '5' %(string%)$", function()
      seriatim.worker { name = "A", shards_count = "5" }
    end)
    assert.matches("worker_spec.lua:%d+: seriatim: ", raised)
    raises("^A%.ttr must be a number of seconds from 0.001 to 31536000, not %-1 %(number%)$", function()
      seriatim.worker { name = "A", ttr = -1 }
    end)
    raises("^A%.codec must be json, raw or a pair of functions {dump, load}, not 'yaml' %(string%)$", function()
      seriatim.worker { name = "A", codec = "yaml" }
    end)
  end)

  it("has a name and only options that are known", function()
    assert.equal("Q", seriatim.worker({ queue_name = "Q" }).name)
    local named = seriatim.worker { name = "N", queue_name = "Q" }
    assert.same({ "N", "Q" }, { named.name, named.queue_name })
    raises("^worker: name is missing$", function() seriatim.worker { shards_count = 1 } end)
    raises("^A: unknown option 'batchsize' %(did you mean batch_size%?%); known are name, perform,", function()
      seriatim.worker { name = "A", batchsize = 3 }
    end)
    raises("^N: unknown option 'shard_count' %(did you mean shards_count%?%); known", function() named.shard_count = 3 end)
    raises("^N: unknown option 'colour'; known are name,", function() named.colour = 3 end)
    raises("^N: unknown option 5; known are name,", function() named[5] = 3 end)
    raises("^worker must be a table of options, not 5 %(number%)$", function() seriatim.worker(5) end)
  end)

  it("gives the core the same settings until one changes", function()
    local plain = seriatim.worker { name = "Plain", ttr = 1.5 }
    local before = plain:queue_settings()
    assert.equal(before, plain:queue_settings())
    local expected = { queue_name = "Plain", shards_count = 5, batch_size = 1, max_retry_count = 25, fold = "merge", on_waiting = "keep",
      on_exhausted = "bury", ttr = 1.5, serial_shards = false, priority = 0, max_running = 0, history_per_id = 0, exhausted_hook = false }
    assert.same(expected, before)
    plain.batch_size, plain.ttr = 8, nil
    expected.batch_size, expected.ttr = 8, nil
    assert.same(expected, plain:queue_settings())
  end)

  it("backs off as the core does", function()
    local plain = seriatim.worker { name = "Plain" }
    for _, count in ipairs { 0, 3, 10 } do
      local seconds = plain.retry_in(count)
      assert.is_true(count ^ 4 + 15 <= seconds and seconds <= count ^ 4 + 15 + 30 * (count + 1))
    end
    assert.is_true(native.back_off(2) > 0)
    plain.retry_in = function() return 7 end
    assert.equal(7, plain.retry_in(0))
    plain.retry_in = nil
    assert.is_true(plain.retry_in(0) >= 15)
  end)

  it("may override perform_async", function()
    local function versioned(worker, list)
      local made = {}
      for place, job in ipairs(list) do
        made[place] = { id = job.id, payload = job, score = job.version }
      end
      return seriatim.push(worker, made)
    end
    local first = seriatim.worker { name = "Versioned", perform_async = versioned }
    local second = seriatim.worker { name = "Versioned2" }
    function second:perform_async(list)
      return versioned(self, list)
    end
    for _, worker in ipairs { first, second } do
      assert.equal(1, worker:perform_async({ { id = 1, version = 7 } }).added)
      assert.same({ { { id = 1, version = 7 }, 7 } }, worker.queries:fetch({ 1 })[1].payloads)
      assert.equal(1, worker.queue:push({ { id = 2 } }).added)
    end
  end)

  it("runs once its retries are used up, and tells of it", function()
    local exhausted, tried = {}, {}
    local broken = jobs.worker("Broken", function() error({ message = "of mine" }) end, {
      max_retry_count = 1,
      retry_in = function(count)
        table.insert(tried, count)
        return 0.01
      end,
      retries_exhausted = function(list) table.insert(exhausted, list[1]) end,
    })
    broken:perform_async { { id = 1, payload = "p", score = 2 } }
    jobs.serve(broken)
    jobs.eventually(function() return exhausted[1] end)
    assert.same({ { id = "1", payloads = { { "p", 2 } }, payloads_count = 1, error = "of mine" } }, exhausted)
    assert.equal(0, tried[1])
  end)
end)

describe("the workers of a server", function()
  local function define(name)
    return seriatim.worker { name = name, perform = perform }
  end

  local first, second = define("First"), define("Second")
  package.loaded["spec_app"] = { First = first, inner = { Second = second } }
  package.loaded["spec_worker"] = first

  it("are given, named or found", function()
    assert.same({ first, second }, workers.chosen { first, second, first })
    assert.same({ first, second }, workers.chosen { "spec_app:First", "spec_app:inner.Second", "spec_worker" })
    assert.same({ second }, workers.chosen(function() return { second } end))
    assert.same({ second }, workers.chosen({ first, second }, { "Second" }))
    seriatim.workers = { second }
    assert.same({ second }, workers.chosen())
    seriatim.reset_settings()
    local found = {}
    for _, worker in ipairs(workers.defined()) do
      found[worker] = true
    end
    assert.is_true(found[first] and found[second])
    table.insert(seriatim.workers, first)
    assert.same({ first }, workers.chosen())
  end)

  it("are refused where they are none", function()
    local cases = {
      { {}, "^USAGE: no workers: set seriatim.workers, or define one with seriatim.worker$" },
      { { 5 }, "^USAGE: workers: 5 is not a seriatim.worker$" },
      { { print }, "^USAGE: workers: a function is not a seriatim.worker$" },
      { { "no.such:Thing" }, "^USAGE: workers: there is no no.such:Thing: module 'no.such' not found" },
      { { "spec_app:Thing" }, "^USAGE: workers: there is no spec_app:Thing: the module has no such field$" },
      { { "spec_app" }, "^USAGE: workers: 'spec_app' is not a seriatim.worker$" },
      { 5, "^workers must be a list, not 5" },
    }
    for _, case in ipairs(cases) do
      raises(case[2], function() workers.chosen(case[1]) end)
    end
  end)

  it("have queues of their own, which are known", function()
    raises("^USAGE: workers: Twice and Other have the same queue_name 'Twice'$", function()
      workers.chosen { define("Twice"), seriatim.worker { name = "Other", queue_name = "Twice", perform = perform } }
    end)
    raises("^USAGE: unknown queue 'b'; there are 'a'$", function() workers.chosen({ define("a") }, { "b" }) end)
  end)

  it("each need a perform", function()
    local idle = seriatim.worker { name = "Idle" }
    raises("^USAGE: workers: Idle has no perform; write `perform = function%(payloads_by_id%) end` in its options", function()
      workers.chosen { define("a"), idle }
    end)
    assert.equal(1, #workers.chosen({ define("a"), idle }, { "a" }))
  end)

  describe("with one name", function()
    -- As the file of this name: run again by another call of `run`, it is a reload.
    local function run(name, text)
      local _, made = assert(pcall(assert((loadstring or load)(text, "@" .. name)))) -- by a C function, as `require` does
      return made
    end

    local function defined(name)
      local found = {}
      for _, worker in ipairs(workers.defined()) do
        found[#found + 1] = worker.name == name and worker or nil
      end
      return found
    end

    local DEFINED = [[
      local made = require("seriatim").worker { name = "%s", perform = function() end }
      return made
    ]]
    local RETURNED = [[return require("seriatim").worker { name = "%s", perform = function() end }]]

    it("are the latest after a reload", function()
      run("one.lua", DEFINED:format("Reloaded"))
      local latest = run("one.lua", "-- edited\n" .. DEFINED:format("Reloaded"))
      assert.same({ latest }, defined "Reloaded")
    end)

    it("are the latest after a reload of a file that returns one", function()
      run("one.lua", RETURNED:format("Returned"))
      local latest = run("one.lua", RETURNED:format("Returned"))
      assert.same({ latest }, defined "Returned")
    end)

    it("are the latest where the same line defined them", function()
      local old, new = define("SameLine"), define("SameLine")
      assert.same({ new }, defined "SameLine")
      assert.is_true(worker_module.is(old) and not worker_module.is({}))
    end)

    it("are all there where two files define them, also by a tail call", function()
      run("one.lua", DEFINED:format("InTwoFiles"))
      run("two.lua", DEFINED:format("InTwoFiles"))
      assert.equal(2, #defined "InTwoFiles")
      for _, name in ipairs { "one.lua", "two.lua" } do
        run(name, RETURNED:format("ReturnedByTwo"))
      end
      assert.equal(2, #defined "ReturnedByTwo")
    end)

    it("are all there where one file defines them, and are refused", function()
      local twice = run("one.lua", DEFINED:format("InOneFile"):gsub("return made", "") .. DEFINED:format("InOneFile"))
      local found = defined "InOneFile"
      assert.same({ 2, twice }, { #found, found[2] })
      raises("^USAGE: workers: InOneFile and InOneFile have the same queue_name 'InOneFile'$", function() workers.chosen(found) end)
    end)
  end)
end)
