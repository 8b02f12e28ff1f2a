-- Metrics, queries and actions.

local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local ids, includes, now, raises = jobs.ids, jobs.includes, jobs.now, suite.raises

local function failing(payloads_by_id)
  error("of " .. table.concat(jobs.keys(payloads_by_id), ","), 0)
end

describe("metrics", function()
  it("R-METRICS-1: count what waits, fails, runs and is dead", function()
    local recorder = jobs.worker("Figures", failing, { max_retry_count = 0 })
    local zero = { length = 0, fresh = 0, retries = 0, morgue_length = 0, lag = 0, processed = 0, failed = 0, busy = 0 }
    assert.is_true(includes(recorder:metrics(), zero))
    recorder:perform_async { { id = "dead0" }, { id = "dead1" }, { id = "busy" } }
    jobs.serve(recorder).holds = "busy"
    jobs.eventually(function() return includes(recorder:metrics(), { morgue_length = 2, busy = 1 }) end)
    recorder.actions:pause()
    recorder:perform_async {
      { id = "a", perform_in = now() - 10 }, { id = "b", delay = 60 }, { id = "c", delay = 60 },
      { id = "d", retry_count = 0, delay = 60 }, { id = "e", retry_count = 3, delay = 60 },
    }
    local figures = recorder:metrics()
    assert.is_true(includes(figures, { fresh = 3, retries = 2, length = 5, busy = 1, morgue_length = 2, failed = 2 }))
    local sum = 0
    for _, shard in ipairs(figures.shards) do
      sum = sum + shard.length
    end
    assert.same({ 5, 5 }, { sum, #figures.shards })
  end)

  it("R-METRICS-2: have no lag where all is due later", function()
    local recorder = jobs.worker("Ahead")
    recorder:perform_async { { id = 1, delay = 60 } }
    assert.is_true(includes(recorder:metrics(), { lag = 0, length = 1 }))
  end)

  it("name the living nodes", function()
    local node = jobs.serve(jobs.worker("Nodes"))
    local found = jobs.eventually(function()
      for _, living in ipairs(seriatim.nodes()) do
        if living.name == node.id then
          return living
        end
      end
    end)
    assert.equal("lua spec", found.description)
    assert.is_true(found.expires_in > 0)
    if math.type then -- LuaJIT has no integers
      for _, name in ipairs { "threads", "since", "rss" } do
        assert.equal("integer", math.type(found[name]), name)
      end
    end
  end)
end)

describe("queries", function()
  it("R-QUERY-2: list what waits, up and down", function()
    local recorder = jobs.worker("Queries")
    local queries = recorder.queries
    assert.same({ {}, {} }, { queries:range_by_id("-", "+"), queries:rev_range_by_id("+", "-") })
    local base = math.floor(now()) + 1000
    recorder:perform_async {
      { id = "a", perform_in = base + 2, retry_count = 0, payload = "a", score = 2 },
      { id = "b", perform_in = base + 1, retry_count = 1, payload = "b", score = 1 },
      { id = "c", perform_in = base + 3, retry_count = -1, payload = "c", score = 3 },
    }
    local cases = {
      { "a,b,c", queries:range_by_id("-", "+") },
      { "c,b,a", queries:rev_range_by_id("+", "-") },
      { "b", queries:range_by_id("(a", "[c", { limit = 1 }) },
      { "b,a,c", queries:range_by_perform_in("-inf", "+inf") },
      { "c,a", queries:rev_range_by_perform_in(math.huge, base + 2) },
      { "a", queries:range_by_perform_in(base + 2, base + 2.5) },
      { "a", queries:range_by_perform_in("(" .. base + 1, base + 2.25) },
      { "c,a,b", queries:range_by_retry_count(-1, math.huge) },
      { "c", queries:range_by_retry_count(-math.huge, "(0") },
      { "b,a", queries:rev_range_by_retry_count("+inf", 0) },
    }
    for place, case in ipairs(cases) do
      assert.same({ place, case[1] }, { place, table.concat(ids(case[2]), ",") })
    end
    assert.same({
      { id = "c", perform_in = base + 3, retry_count = -1, payloads = { { "c", 3 } }, payloads_count = 1 },
      { id = "a", perform_in = base + 2, retry_count = 0, payloads = { { "a", 2 } }, payloads_count = 1 },
    }, queries:fetch { "c", "nobody", "a" })
  end)

  it("R-QUERY-5: refuse invalid bounds and limits", function()
    local queries = jobs.worker("Queries").queries
    raises("", function() queries:range_by_id("a", "+") end)
    raises("", function() queries:range_by_id("-", 5) end)
    for _, bound in ipairs { "soon", 0 / 0, true, { 1 } } do
      raises("", function() queries:range_by_perform_in(bound, "+inf") end)
    end
    raises("^bound must be a string or a number, not nil$", function() queries:range_by_id() end)
    local raised = raises("^limit must be an integer from 1 to 100000, not 0 %(number%)$", function()
      queries:range_by_id("-", "+", { limit = 0 })
    end)
    assert.matches("operators_spec.lua:%d+: seriatim: ", raised)
    raises("^unknown option 'limits'; known are limit$", function() queries:range_by_id("-", "+", { limits = 1 }) end)
    raises("^options must be a table, not 5 %(number%)$", function() queries:range_by_id("-", "+", 5) end)
  end)

  it("R-MORGUE-5, R-QUERY-6: list the dead and what runs", function()
    local recorder = jobs.worker("Dead", failing, { max_retry_count = 0 })
    local queries = recorder.queries
    jobs.serve(recorder).holds = "run"
    for _, id in ipairs { "b", "a" } do
      recorder:perform_async { { id = id, score = 1 } }
      jobs.eventually(function() return #queries:morgue_fetch { id } > 0 end)
    end
    recorder:perform_async { { id = "run", payload = 1 } }
    jobs.eventually(function() return recorder:metrics().busy == 1 end)
    local running = queries:processing_data()
    assert.same({ 1, "run", -1 }, { #running, running[1].id, running[1].retry_count })
    local found = 0
    for shard = 0, 4 do
      found = found + #queries:processing_data(shard)
    end
    assert.equal(1, found)
    assert.same({ "a", "b" }, ids(queries:morgue_range_by_id("-", "+")))
    assert.same({ "b", "a" }, ids(queries:morgue_rev_range_by_id("+", "-")))
    assert.same({ "b", "a" }, ids(queries:morgue_range_by_updated_at("-inf", "+inf")))
    assert.same({ "a", "b" }, ids(queries:morgue_rev_range_by_updated_at("+inf", "-inf")))
    local dead = queries:morgue_fetch({ "a", "x" })
    assert.is_true(#dead == 1 and math.abs(dead[1].updated_at - now()) < 30)
    dead[1].updated_at = nil
    assert.same({ { id = "a", payloads = { { "", 1 } }, payloads_count = 1, error = "of a" } }, dead)
  end)

  it("pass stored errors through load_error", function()
    local recorder = jobs.worker("Errors", failing, { retry_in = function() return 60 end })
    seriatim.dump_error = string.reverse
    recorder:perform_async { { id = 1 } }
    jobs.serve(recorder)
    local function stored()
      local record = recorder.queries:fetch({ 1 })[1]
      return record and record.error
    end
    assert.equal("1 fo", jobs.eventually(stored))
    seriatim.load_error = string.reverse
    assert.equal("of 1", stored())
  end)

  it("give no owner of a shard that nobody owns", function()
    local recorder = jobs.worker("Ownerless")
    recorder:perform_async { { id = 1, delay = 60 } }
    local function owners()
      local found = {}
      for _, shard in ipairs(recorder:metrics().shards) do
        found[#found + 1] = shard.owner
      end
      return found
    end
    assert.same({}, owners())
    assert.is_nil(recorder.queries:explain(1).owner)
    jobs.serve(recorder)
    jobs.eventually(function() return #owners() == 5 end)
    assert.equal(owners()[1], recorder.queries:explain(1).owner)
  end)

  it("explain", function()
    local recorder = jobs.worker("Why")
    recorder:perform_async { { id = 1, delay = 60 } }
    local answer = recorder.queries:explain(1)
    assert.is_true(answer.text ~= "" and answer.dead == nil and answer.paused == false)
    assert.is_true(includes(answer.job, { id = "1", state = "delayed" }))
    assert.is_nil(recorder.queries:explain("nobody").job)
    recorder:perform_async { { id = 1, payload = "a" }, { id = 1, payload = "b" } }
    local job = recorder.queries:explain(1).job
    assert.equal(3, job.payloads_count)
    assert.is_nil(job.payloads)
    recorder.actions:park { 1 }
    assert.equal("parked", recorder.queries:explain(1).job.state)
  end)
end)

describe("a method called with a dot", function()
  local recorder

  before_each(function() recorder = jobs.worker("Dotted") end)

  it("of the actions says so", function()
    local message = "^actions need a colon, as in worker%%.actions:%s%%(%%.%%.%%.%%), not %s$"
    raises(message:format("pause", "nil"), function() recorder.actions.pause() end)
    raises(message:format("delete", "a table"), function() recorder.actions.delete { 1 } end)
    raises(message:format("drop_payload", "a string"), function() recorder.actions.drop_payload("1", 2) end)
    raises(message:format("check", "nil"), function() recorder.actions.check() end)
    raises(message:format("delete_queue", "a table"), function() recorder.actions.delete_queue(recorder) end)
  end)

  it("of the queries says so", function()
    local message = "^queries need a colon, as in worker%%.queries:%s%%(%%.%%.%%.%%), not %s$"
    raises(message:format("explain", "a number"), function() recorder.queries.explain(1) end)
    raises(message:format("range_by_id", "a string"), function() recorder.queries.range_by_id("-", "+") end)
    raises(message:format("processing_data", "nil"), function() recorder.queries.processing_data() end)
    raises(message:format("fetch", "a table"), function() recorder.queries.fetch { 1 } end)
  end)
end)

describe("actions", function()
  it("return the number of ids that they acted on", function()
    local recorder = jobs.worker("Acts")
    local actions = recorder.actions
    local list = { { id = "n", delay = 60 } }
    for number = 0, 2 do
      table.insert(list, { id = "f" .. number, retry_count = 1, delay = 60 })
    end
    recorder:perform_async(list)
    assert.equal(3, actions:kill_all_failed_jobs())
    assert.is_true(includes(recorder:metrics(), { length = 1, morgue_length = 3 }))
    assert.equal(1, actions:morgue_queue_up { "f0", "nobody" })
    assert.equal(1, actions:morgue_delete { "f1" })
    assert.equal(1, actions:morgue_delete_all_jobs())
    assert.is_true(actions:perform_all_jobs_now() >= 1)
    assert.is_true(recorder:metrics().lag < 100)
    assert.equal(1, actions:park { "n" })
    assert.same({ "n" }, ids(recorder.queries:parked()))
    assert.equal(1, actions:unpark { "n" })
    assert.equal(2, actions:delete { "n", "f0" })
    assert.same({ 5, 5 }, { actions:pause(), actions:resume() })
    assert.same({}, actions:check({ repair = true }).findings)
    assert.equal(0, actions:delete {})
  end)

  it("park, pause, resume and delete", function()
    local recorder = jobs.worker("Acts")
    local list = {}
    for number = 0, 3 do
      table.insert(list, { id = number, retry_count = 1, delay = 60 })
    end
    recorder:perform_async(list)
    assert.equal(1, recorder.actions:park { 0 })
    assert.equal(3, recorder.actions:delete_all_failed_jobs())
    recorder:perform_async { { id = 9, retry_count = 1, delay = 60 } }
    assert.equal(1, recorder.actions:kill_all_failed_jobs())
    assert.equal(1, recorder.actions:morgue_queue_up_all_jobs())
    assert.same({ "9" }, ids(recorder.queries:range_by_id("-", "+")))
  end)

  it("perform chosen ids now, and unpark all", function()
    local recorder = jobs.worker("Chosen")
    local actions, queries = recorder.actions, recorder.queries
    recorder:perform_async { { id = 1, delay = 600, retry_count = 2 }, { id = "a", delay = 600 }, { id = "other", delay = 600 } }
    assert.equal(2, actions:perform_now { 1, "a", "nobody" })
    local record = queries:fetch({ 1 })[1]
    assert.is_true(record.retry_count == 2 and math.abs(record.perform_in - now()) < 60)
    raises("^ids%[2%] must be a string or an integer, not true %(boolean%)$", function() actions:perform_now { "other", true } end)
    assert.is_true(queries:fetch({ "other" })[1].perform_in > now() + 500)
    assert.equal(0, actions:perform_now {})
    assert.equal(2, actions:park { 1, "a" })
    assert.equal(2, actions:unpark_all())
    assert.same({}, queries:parked())
  end)

  it("drop a payload by its value, in the worker's codec", function()
    local recorder = jobs.worker("Drops", nil, { codec = { string.reverse, string.reverse } })
    local actions = recorder.actions
    recorder:perform_async { { id = 1, payload = "ab", delay = 600 }, { id = 1, payload = "cd", delay = 600 } }
    assert.equal(0, actions:drop_payload("1", "ba"))
    assert.equal(1, actions:drop_payload(1, "ab"))
    assert.equal(0, actions:morgue_drop_payload(1, "cd"))
    assert.equal("cd", recorder.queries:fetch({ 1 })[1].payloads[1][1])
    raises("^id must be a string or an integer, not 1.5 %(number%)$", function() actions:drop_payload(1.5, "cd") end)
    raises("must be 1 to 1024 bytes, not 0$", function() actions:drop_payload("", "cd") end)
    raises("^payload", function() jobs.worker("Json").actions:drop_payload(1, { at = print }) end)
    raises("^payload: must be a string, not ", function() jobs.worker("Bytes", nil, { codec = "raw" }).actions:drop_payload(1, 7) end)
  end)

  it("refuse invalid ids", function()
    local actions = jobs.worker("Acts").actions
    raises("^ids must be a list, not 'n' %(string%)$", function() actions:delete("n") end)
    raises("^ids%[1%] must be a string or an integer, not 1.5 %(number%)$", function() actions:delete { 1.5 } end)
    raises("^ids%[2%] must be 1 to 1024 bytes, not 0$", function() actions:delete { "a", "" } end)
    raises("^repair must be true or false, not 1 %(number%)$", function() actions:check { repair = 1 } end)
  end)

  it("delete a queue with its ids only where force is true", function()
    local recorder = jobs.worker("Acts")
    assert(recorder:perform_async { { id = 1, delay = 600 } })
    for shown, force in pairs { ["'false' %(string%)"] = "false", ["0 %(number%)"] = 0, null = seriatim.null, ["a table"] = {} } do
      raises("^force must be true or false, not " .. shown .. "$", function() recorder.actions:delete_queue { force = force } end)
    end
    for _, options in ipairs { {}, { force = false } } do
      raises("^the queue holds 1 ids ", function() recorder.actions:delete_queue(options) end)
    end
    raises("^the queue holds 1 ids ", function() recorder.actions:delete_queue() end)
    assert.equal(1, recorder:metrics().length)
    assert.equal(1, recorder.actions:delete_queue { force = true })
    assert.equal(0, recorder:metrics().length)
  end)
end)

describe("a queue", function()
  it("has a name, shards and records", function()
    local queue = jobs.worker("Names").queue
    assert.same({ "Names", 0 }, { queue:name(), queue:shards_count() })
    assert.equal(1, queue:push({ { id = 1 } }).added)
    assert.same({ "1", 5, 1 }, { queue:fetch({ 1 })[1].id, queue:shards_count(), queue:metrics().length })
  end)

  it("has the shards that Redis knows", function()
    jobs.worker("Shards", nil, { shards_count = 3 }):perform_async { { id = 1 } }
    local other = jobs.worker("Shards", nil, { shards_count = 7 })
    other:perform_async { { id = 2 } }
    assert.same({ 3, 3 }, { other.queue:shards_count(), #other:metrics().shards })
  end)
end)

describe("health", function()
  local health, log = require "seriatim.server.health", require "seriatim.log"

  local function warnings(url)
    local lines, output = {}, log.output
    log.output = function(line) table.insert(lines, line) end
    health.check(url)
    log.output = output
    return table.concat(lines)
  end

  it("warns and never fails", function()
    assert.equal("", warnings(suite.redis.url))
    suite.redis:call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    local text = warnings(suite.redis.url)
    suite.redis:call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert.matches("maxmemory%-policy is allkeys%-lru: Redis may throw jobs away; set it to noeviction", text)
    seriatim.wait_replicas = 2
    text = warnings(suite.redis.url)
    seriatim.wait_replicas = 0
    assert.matches("wait_replicas is 2, but Redis has 0 replicas", text)
    assert.matches("cannot be checked", warnings("redis://nobody:secret@127.0.0.1:1"))
    assert.matches("cannot be checked", warnings("http://x"))
  end)
end)
