-- A list that a caller gives: what stands behind a hole is never dropped in silence.

local jobs = require "support.jobs"
local seriatim = require "seriatim"
local settings = require "seriatim.settings"
local splitters = require "seriatim.server.splitters"
local suite = require "support.suite"
local testing = require "seriatim.testing"
local web = require "seriatim.web"
local workers = require "seriatim.server.workers"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises
local HOLE = " must be [^,]*, not a table with a hole at %d %%(a list is from 1 on without holes%%)$"

---@param field string  a pattern
local function hole(field, place)
  return "^" .. field .. HOLE:format(place or 2)
end

local function pass(_, _, next)
  return next()
end

-- The same to a caller, but Lua gives the first the length 3 and the second, mostly, 1.
local FORMS = {
  ["as nil"] = function(first, third) return { first, nil, third } end,
  ["as no key"] = function(first, third) return { [1] = first, [3] = third } end,
}

for form, holed in pairs(FORMS) do
  describe("a list with a hole, written " .. form .. ", is refused:", function()
    local recorder

    before_each(function() recorder = jobs.worker("Lists") end)

    it("jobs", function()
      local list = holed({ id = 1 }, { id = 2 })
      raises(hole "jobs", function() recorder:perform_async(list) end)
      raises(hole "jobs", function() seriatim.push(recorder, list) end)
      raises(hole "jobs", function() recorder.queue:push(list) end)
      raises(hole "jobs", function()
        seriatim.pipelined(function() recorder:perform_async(list) end)
      end)
      raises(hole "jobs", function() jobs.worker("Own", nil, { codec = { tostring, tostring } }):perform_async(list) end)
      assert.equal("0", suite.redis:call("DBSIZE"))
    end)

    it("jobs that a client middleware has changed", function()
      seriatim.client_middlewares = { function(_, list, next)
        list[2] = nil
        return next()
      end }
      raises(hole "jobs", function() recorder:perform_async { { id = 1 }, { id = 2 }, { id = 3 } } end)
      seriatim.client_middlewares = { pass }
      raises(hole "jobs", function() recorder:perform_async(holed({ id = 1 }, { id = 2 })) end)
      assert.equal("0", suite.redis:call("DBSIZE"))
    end)

    it("ids of actions and queries", function()
      assert(recorder:perform_async { { id = "x", delay = 60 }, { id = "y", delay = 60 } })
      for _, name in ipairs { "delete", "park", "unpark", "kill", "perform_now", "morgue_queue_up", "morgue_delete" } do
        raises(hole "ids", function() recorder.actions[name](recorder.actions, holed("x", "y")) end)
      end
      raises(hole "ids", function() recorder.queries:fetch(holed("x", "y")) end)
      raises(hole "ids", function() recorder.queries:morgue_fetch(holed("x", "y")) end)
      raises(hole "ids", function() recorder.queue:fetch(holed("x", "y")) end)
      assert.equal(2, recorder:metrics().length)
    end)

    it("queues of a pop", function()
      assert(recorder:perform_async { { id = 1 } })
      raises(hole "queues", function() seriatim.pop(holed("Lists", "Other"), { wait = 0 }) end)
      assert.equal(1, recorder:metrics().length)
    end)

    it("members of a set", function()
      local ick = seriatim.ick()
      raises(hole "members", function() ick:ickadd("k", holed(1, "a")) end)
      raises(hole "members", function() ick:ickcommit("k", holed("a", "b")) end)
      raises(hole "members", function() ick:ickexchange("k", 1, holed("a", "b")) end)
      assert.equal("0", suite.redis:call("DBSIZE"))
    end)

    it("settings", function()
      for _, name in ipairs { "server_middlewares", "client_middlewares" } do
        raises(hole(name), function() seriatim[name] = holed(pass, pass) end)
        assert.same({}, seriatim[name])
      end
      raises(hole "workers", function() seriatim.workers = holed(recorder, "app:Other") end)
      assert.is_false(settings.was_set("workers"))
    end)

    it("workers and queues of a server", function()
      raises(hole "workers", function() workers.chosen(holed(recorder, recorder)) end)
      raises(hole "workers", function()
        workers.chosen(function() return holed(recorder, recorder) end)
      end)
      raises(hole "queues", function() workers.chosen({ recorder }, holed("Lists", "Lists")) end)
    end)

    it("groups of a splitter", function()
      local shards = {}
      for index = 0, 2 do
        shards[index + 1] = { worker = recorder, index = index }
      end
      local refused = "^USAGE: build_splitter: the splitter must give a list of groups, .*, not a table with a hole at 2 "
      raises(refused, function()
        splitters.groups(function(all) return holed({ all[1] }, { all[3] }) end, shards, 1)
      end)
      raises(refused, function()
        splitters.groups(function(all) return { holed(all[1], all[3]) } end, shards, 1)
      end)
    end)

    it("seconds of events", function()
      local events = seriatim.events "lists"
      local refused = '^retry_in must be "delayed_queue", a function, or a list of seconds, not a table with a hole at 2 '
      raises(refused, function() events:on("Paid", print, { retry_in = holed(1, 60) }) end)
      assert.is_false(events:off("Paid"))
    end)

    it("hosts of the dashboard, payloads of a test, and an array", function()
      raises(hole "hosts", function() web.new { hosts = holed("a", "b") } end)
      raises(hole "payloads_by_id%['1'%]", function() testing.batch(recorder, { [1] = holed("a", "b") }) end)
      raises(hole "array", function() seriatim.array(holed("a", "b")) end)
    end)
  end)
end

describe("a list", function()
  it("with a hole at its begin is refused", function()
    raises(hole("client_middlewares", 1), function() seriatim.client_middlewares = { nil, pass } end)
    raises(hole("jobs", 1), function() jobs.worker("Lists"):perform_async { nil, { id = 1 } } end)
    raises(hole("ids", 1), function() jobs.worker("Lists").queries:fetch { [7] = "x" } end)
  end)

  it("may end with nil, be filled in any order, and be empty", function()
    local recorder, list = jobs.worker("Lists"), { nil, { id = 2 }, { id = 3 } }
    list[1] = { id = 1 }
    assert.equal(3, recorder:perform_async(list).added)
    assert.equal(1, recorder:perform_async({ { id = 4 }, nil }).added)
    assert.equal(0, recorder:perform_async({}).added)
    assert.equal(0, recorder.actions:delete { nil })
    assert.equal(2, recorder.actions:delete { 1, 2, nil })
    seriatim.client_middlewares = { nil }
    seriatim.workers = {}
  end)

  it("has no key but its places", function()
    for shown, key in pairs { ["0"] = 0, ["%-1"] = -1, ["1%.5"] = 1.5, ["true"] = true, ["'n'"] = "n" } do
      raises("^ids must be a list, not a table with the key " .. shown .. "$", function()
        jobs.worker("Lists").actions:delete { "x", [key] = "y" }
      end)
    end
  end)

  it("of a setting that gets a hole later is refused when it is used", function()
    local recorder = jobs.worker("Lists", nil, { retry_in = function() return 60 end })
    assert(recorder:perform_async { { id = 1 } })
    seriatim.client_middlewares[2] = pass
    raises(hole("client_middlewares", 1), function() recorder:perform_async { { id = 2 } } end)
    seriatim.client_middlewares[2] = nil
    seriatim.server_middlewares[2] = pass
    jobs.serve(recorder)
    local record = jobs.eventually(function()
      local found = recorder.queries:fetch({ 1 })[1]
      return found and found.error and found
    end)
    assert.matches("server_middlewares must be a list, not a table with a hole at 1", record.error, 1, true)
    assert.same({}, jobs.recorded(recorder))
    seriatim.workers[2] = recorder
    raises(hole("workers", 1), function() workers.chosen() end)
  end)
end)
