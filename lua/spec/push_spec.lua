-- What a push does, and what it refuses.

local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local now, raises = jobs.now, suite.raises

local function near(expected, value)
  return math.abs(expected - value) <= 60
end

local function counts(added, folded, places)
  return { added = added, folded = folded, refused = #places, refused_at = places, scheduled = 0, stale = 0, handles = {} }
end

describe("a push", function()
  local recorder

  before_each(function() recorder = jobs.worker("Orders") end)

  local function record(id, worker)
    return assert((worker or recorder).queries:fetch({ id }))[1]
  end

  it("R-PUSH-1: is run once, then gone", function()
    assert.same(counts(1, 0, {}), recorder:perform_async { { id = 1, payload = "v1" } })
    jobs.serve(recorder)
    assert.same({ ["1"] = { "v1" } }, jobs.runs(recorder)[1].payloads)
    jobs.drained(recorder)
    assert.is_true(jobs.includes(recorder:metrics(), { length = 0, busy = 0, processed = 1, failed = 0 }))
    assert.same({}, recorder.queries:fetch { "1" })
    assert.same({}, jobs.recorded(recorder))
  end)

  it("R-PUSH-3: has defaults for payload, score and time", function()
    recorder:perform_async { { id = "x" } }
    local found = record("x")
    assert.same({ "x", -1, "" }, { found.id, found.retry_count, found.payloads[1][1] })
    assert.is_true(near(now(), found.perform_in) and near(now(), found.payloads[1][2]))
    assert.is_nil(found.error)
  end)

  it("R-PUSH-4: writes nothing without an id", function()
    raises("^jobs%[2%]: id is missing$", function() recorder:perform_async { { id = "a" }, { payload = 1 } } end)
    assert.equal("0", suite.redis:call("DBSIZE"))
  end)

  it("R-ORDER-1, R-ORDER-2: gives payloads by score, then by arrival", function()
    recorder:perform_async {
      { id = "o", score = 3, payload = "c" }, { id = "o", score = 1, payload = "a" }, { id = "o", score = 2, payload = "b" },
    }
    recorder:perform_async { { id = "one", score = 1, payload = "b" }, { id = "one", score = 1, payload = "a" } }
    jobs.serve(recorder)
    local found = {}
    for _, run in ipairs(jobs.runs(recorder, 2)) do
      found[run.ids[1]] = run.payloads[run.ids[1]]
    end
    assert.same({ o = { "a", "b", "c" }, one = { "b", "a" } }, found)
  end)

  it("R-ORDER-3: is run in order when one id is pushed many times", function()
    jobs.serve(recorder)
    jobs.serve(recorder)
    local ids = { "a", "b", "c" }
    for number = 1, 100 do
      local list = {}
      for place, id in ipairs(ids) do
        list[place] = { id = id, payload = number }
      end
      recorder:perform_async(list)
      jobs.step()
    end
    jobs.drained(recorder)
    local seen = { a = {}, b = {}, c = {} }
    for _, run in ipairs(jobs.recorded(recorder)) do
      for id, payloads in pairs(run.payloads) do
        for _, payload in ipairs(payloads) do
          table.insert(seen[id], payload)
        end
      end
    end
    for _, id in ipairs(ids) do
      assert.equal(100, #seen[id])
      for number = 1, 100 do
        assert.equal(number, seen[id][number])
      end
    end
  end)

  it("R-FOLD-1: onto a waiting id unites payloads, keeping time and retry_count", function()
    local time = math.floor(now()) + 600
    recorder:perform_async {
      { id = "1", retry_count = 0, perform_in = time, payload = "v1", score = 1 },
      { id = "1", retry_count = 0, perform_in = time, payload = "v2", score = 2 },
    }
    assert.same(counts(0, 2, {}), recorder:perform_async {
      { id = "1", perform_in = time + 2, payload = "v2", score = 3 },
      { id = "1", perform_in = time + 2, payload = "v3", score = 4 },
    })
    local payloads = { { "v1", 1 }, { "v2", 2 }, { "v3", 4 } }
    local expected = { id = "1", payloads = payloads, payloads_count = 3, retry_count = 0, perform_in = time }
    assert.same(expected, record("1"))
  end)

  it("R-WAITING-1: with earlier brings an id forward; without it the time stays", function()
    recorder:perform_async { { id = "1", perform_at = now() + 3600 } }
    recorder:perform_async { { id = "1", perform_in = now() } }
    assert.is_true(record("1").perform_in > now() + 3000)
    recorder:perform_async { { id = "1", perform_in = now(), on_waiting = "earlier" } }
    assert.is_true(near(now(), record("1").perform_in))
  end)

  it("R-WAITING-4: counts rejected jobs and gives their indexes, from 1", function()
    recorder:perform_async { { id = "a", delay = 60 } }
    local result = recorder:perform_async { { id = "b" }, { id = "a", payload = 2, on_waiting = "reject" } }
    assert.same(counts(1, 0, { 2 }), result)
  end)

  it("R-DUE-1: with a delay is run in time, and not before", function()
    local begun = now()
    recorder:perform_async {
      { id = "soon", perform_in = begun + 1 },
      { id = "far", perform_at = begun + 86400 * 3650 },
      { id = "past", perform_in = -1 },
    }
    jobs.serve(recorder)
    local runs = jobs.runs(recorder, 2)
    assert.same({ "past", "soon" }, { runs[1].ids[1], runs[2].ids[1] })
    assert.is_true(runs[2].started - begun >= 0.9)
    assert.equal("far", record("far").id)
  end)

  it("R-NAMES-1: takes names of any bytes", function()
    local ids = { "a:b", "{a}", " ", "a\0b", "\195\169", "\255", ("x"):rep(1024) }
    for _, name in ipairs { "Q", "Q:processing", "Q:morgue", "{Q}", "Q\n}{\0 \195\169" } do
      local worker, list = jobs.worker(name, nil, { shards_count = 2 }), {}
      for place, id in ipairs(ids) do
        list[place] = { id = id, payload = name }
      end
      worker:perform_async(list)
      for _, found in ipairs(worker.queries:fetch(ids)) do
        assert.same(name, found.payloads[1][1])
      end
      assert.equal(#ids, #worker.queries:range_by_id("-", "+", { limit = 100 }))
    end
    raises("^jobs%[1%]: id is 1025 bytes long", function() recorder:perform_async { { id = ("x"):rep(1025) } } end)
  end)

  local cyclic = {}
  cyclic.self = cyclic
  local REFUSED = {
    { "no list", { id = 1 }, "^jobs must be a list of tables, not a table with the key 'id'$" },
    { "a text", "jobs", "^jobs must be a list of tables, not 'jobs' %(string%)$" },
    { "nothing", nil, "^jobs must be a list of tables, not nil$" },
    { "no table", { 1 }, "^jobs%[1%]: must be a table, not a number$" },
    { "an unknown key", { { id = 1 }, { id = 1, paylaod = 1 } }, "^jobs%[2%]: unknown key 'paylaod'; known are id, payload" },
    { "a key with a zero byte", { { id = 1, ["payload\0x"] = 1 } }, "^jobs%[1%]: unknown key 'payload\\0x'; known" },
    { "a list as a job", { { 1 } }, "^jobs%[1%]: unknown key 1; known" },
    { "a null id", { { id = seriatim.null } }, "^jobs%[1%]: id must be a string or an integer, not null$" },
    { "a fraction as id", { { id = 1 }, { id = 1.5 } }, "^jobs%[2%]: id must be" },
    { "a boolean id", { { id = true } }, "^jobs%[1%]: id must be .* not true %(boolean%)$" },
    { "an id beyond exactness", { { id = 2 ^ 60 } }, "^jobs%[1%]: id must be" },
    { "an empty id", { { id = "" } }, "^jobs%[1%]: id" },
    { "two times", { { id = 1, perform_in = 1, delay = 1 } }, "^jobs%[1%]: perform_in and delay exclude each other$" },
    { "a text time", { { id = 1, perform_at = "soon" } }, "^jobs%[1%]: perform_at must be a number of Unix seconds, not 'soon'" },
    { "a text delay", { { id = 1, delay = "1" } }, "^jobs%[1%]: delay must be a number of seconds" },
    { "a text score", { { id = 1, score = "1" } }, "^jobs%[1%]: score must be a number" },
    { "a NaN score", { { id = 1, score = 0 / 0 } }, "^jobs%[1%]: score" },
    { "an infinite time", { { id = 1 }, { id = 1, perform_in = math.huge } }, "^jobs%[2%]: " },
    { "milliseconds", { { id = 1, perform_in = 1.8e12 } }, "^jobs%[1%]: perform_in looks like milliseconds" },
    { "an unknown on_waiting", { { id = 1, on_waiting = "later_on" } }, "^jobs%[1%]: on_waiting must be one of keep" },
    { "a text context", { { id = 1, context = "x" } }, "^jobs%[1%]: context must be a table of strings" },
    { "a list as context", { { id = 1, context = { "x" } } }, "^jobs%[1%].context: a number cannot be a key$" },
    { "a number in a context", { { id = 1, context = { tenant = 7 } } },
      "^jobs%[1%].context%['tenant'%]: must be a string, not a number$" },
    { "a fraction as retry_count", { { id = 1, retry_count = 0.5 } },
      "^jobs%[1%]: retry_count must be an integer of %-1 or more" },
    { "a function in a payload", { { id = 1 }, { id = 2, payload = { items = { { at = print } } } } },
      "^jobs%[2%].payload.items%[1%].at: function cannot be" },
    { "a cycle", { { id = 1, payload = cyclic } }, "^jobs%[1%].payload" },
  }

  for _, case in ipairs(REFUSED) do
    it("refuses before anything is written: " .. case[1], function()
      local raised = raises(case[3], function() recorder:perform_async(case[2]) end)
      assert.matches("push_spec.lua:%d+: seriatim: ", raised)
      assert.equal("", suite.redis:call("KEYS", "*:w:*"))
      assert.equal(0, recorder:metrics().length)
    end)
  end

  it("takes integers as ids, and null for nothing", function()
    recorder:perform_async {
      { id = 2, perform_at = now() + 60, score = seriatim.null, context = seriatim.null, on_waiting = seriatim.null },
      { id = 2 ^ 53, payload = seriatim.null, delay = 60 },
    }
    assert.same({ "2", "9007199254740992" }, jobs.ids(recorder.queries:range_by_id("-", "+")))
    assert.equal(seriatim.null, record("9007199254740992").payloads[1][1])
    assert.equal("2", record(2).id)
  end)

  if suite.has_int64 then
    it("takes int64_t as ids", function()
      recorder:perform_async { { id = require("ffi").new("int64_t", 2 ^ 62) } }
      assert.equal("4611686018427387904", recorder.queries:range_by_id("-", "+")[1].id)
    end)
  end

  it("leaves the caller's tables alone", function()
    local job = { id = 1, payload = { a = { 1 } } }
    table.insert(seriatim.client_middlewares, function(_, list, next)
      list[1].payload = 2
      return next()
    end)
    recorder:perform_async { job }
    assert.same({ id = 1, payload = { a = { 1 } } }, job)
    assert.equal(2, record(1).payloads[1][1])
  end)

  it("of nothing writes nothing", function()
    assert.same(counts(0, 0, {}), recorder:perform_async {})
    assert.equal("0", suite.redis:call("DBSIZE"))
  end)

  it("needs a worker", function()
    raises("^push needs a worker, as in worker:perform_async%(jobs%), not a table$", function()
      recorder.perform_async { { id = 1 } }
    end)
  end)

  it("that is refused by Redis gives nil and the reason", function()
    seriatim.redis = "unix:///no/such/socket"
    local Connection = require "seriatim.client.connection"
    local result, err = Connection.open(seriatim.redis, "x"):call("nodes", 0.2)
    assert.is_nil(result)
    assert.is_true(seriatim.is_error(err) and err.message ~= "" and tostring(err) == err.kind .. ": " .. err.message)
    seriatim.redis = suite.redis.url
    suite.redis:call("CONFIG", "SET", "maxmemory", "1")
    result, err = recorder:perform_async { { id = 1 } }
    suite.redis:call("CONFIG", "SET", "maxmemory", "0")
    assert.same({ nil, "FULL" }, { result, err.kind })
    assert.equal(1, recorder:perform_async({ { id = 1 } }).added)
  end)
end)

describe("a client middleware", function()
  local recorder

  before_each(function() recorder = jobs.worker("Orders") end)

  it("that does not continue lets nothing be written", function()
    table.insert(seriatim.client_middlewares, function() end)
    assert.same(counts(0, 0, {}), recorder:perform_async { { id = 1 } })
    assert.equal(0, recorder:metrics().length)
  end)

  it("makes jobs that are checked again", function()
    table.insert(seriatim.client_middlewares, function(_, list, next)
      table.insert(list, { id = seriatim.null })
      return next()
    end)
    raises("^jobs%[2%]: id must be", function() recorder:perform_async { { id = 1 } } end)
    assert.equal(0, recorder:metrics().length)
  end)

  it("is the outermost when it is the first, sees the result, and errors pass", function()
    local seen = {}
    for _, name in ipairs { "first", "second" } do
      table.insert(seriatim.client_middlewares, function(worker, list, next)
        table.insert(seen, name)
        local result = next()
        table.insert(seen, { name, worker == recorder, #list, result.added })
        return name == "second" and result or nil
      end)
    end
    assert.same(counts(1, 0, {}), recorder:perform_async { { id = 1, context = { tenant = "t" } } })
    assert.same({ "first", "second", { "second", true, 1, 1 }, { "first", true, 1, 1 } }, seen)
    seriatim.client_middlewares = { function() error("mine", 0) end }
    raises("^mine$", function() recorder:perform_async { { id = 1 } } end)
  end)
end)
