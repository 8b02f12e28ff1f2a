-- Delayed events: types with handlers, on workers and servers.
local browser = require "support.browser"
local command = require "support.command"
local logged = require "support.logged"
local log = require "seriatim.log"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local web = require "seriatim.web"

local APP = command.APP .. [[
seriatim.lease_time = 3
seriatim.poll_interval = 0.2
local events = seriatim.events "shop"
]]

describe("events", function()
  local redis, shell, events

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, nil, function(server, made)
    redis, shell, events = server, made, seriatim.events "shop"
  end)

  after_each(function() events:off("Paid") end)

  local function serve(app, ...)
    shell:write("app.lua", APP .. app)
    return shell:start("-r", "app", ...)
  end

  local function traced(text, count)
    command.eventually(function() return shell:count_of(text) >= (count or 1) end, 60, function() return shell:trace() end)
    assert.equal(count or 1, shell:count_of(text))
  end

  local function gone(kind)
    command.eventually(function()
      local metrics = assert(events:worker(kind):metrics())
      return metrics.length + metrics.busy == 0
    end)
  end

  local function refused(message, call)
    local ok, raised = pcall(call)
    assert.is_false(ok)
    assert.matches(message, tostring(raised), 1, true)
  end

  it("R-EVENT-1, R-EVENT-5: gives event and context to the handler, after the delay", function()
    assert(events:enqueue("Paid", { id = 1, event = { sum = 5 }, context = { trace = "t" } }))
    local before = native.time()
    assert(events:enqueue("Paid", { id = "2", event = "text", delay = 0.5 }))
    local after = native.time()
    assert.equal("shop:Paid", events:worker("Paid").queue_name)
    local due = assert(events:worker("Paid").queries:fetch { "2" })[1].perform_in
    assert.is_true(before + 0.499 <= due and due <= after + 0.501, due - before)
    local server = serve [[
      events:on("Paid", function(event, context)
        local text = type(event) == "table" and event.sum or event
        note(("event %s %s %s"):format(text, tostring(context.trace), tostring(next(context) == nil)))
        return true
      end)
    ]]
    traced("event 5 t false")
    traced("event text nil true")
    gone("Paid")
    assert.is_true(native.time() >= due)
    assert.equal(0, server:stop())
  end)

  it("gives events to the handler whose ids have names of the batch's fields and methods", function()
    local ids = { "worker", "shard", "ids", "payloads_by_id", "error", "done", "fail", "contexts" }
    for _, id in ipairs(ids) do
      assert(events:enqueue("Paid", { id = id, event = id }))
    end
    local server = serve [[
      events:on("Paid", function(event)
        note("event " .. tostring(event) .. ".")
        return true
      end)
    ]]
    for _, id in ipairs(ids) do
      traced(("event %s."):format(id))
    end
    gone("Paid")
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-2: ends an event only when the handler returns true", function()
    local server = serve [[
      local outcomes = {
        ["true"] = function() return true end,
        ["false"] = function() return false end,
        ["nil"] = function() end,
        one = function() return 1 end,
        text = function() return "true" end,
        ["nil, err"] = function() return nil, "closed" end,
        raise = function() error("lost", 0) end,
      }
      events:on("Paid", function(event) return outcomes[event]() end, { retry_in = function() return 600 end })
    ]]
    local ids = { "true", "false", "nil", "one", "text", "nil, err", "raise" }
    for _, id in ipairs(ids) do
      assert(events:enqueue("Paid", { id = id, event = id }))
    end
    local made = events:worker("Paid")
    command.eventually(function()
      local metrics = assert(made:metrics())
      return metrics.retries == 6 and metrics.length == 6
    end)
    local texts = {}
    for _, record in ipairs(assert(made.queries:fetch(ids))) do
      texts[record.id] = record.error
    end
    assert.is_nil(texts["true"])
    assert.equal("the handler returned nil, not true", texts["nil"])
    assert.equal("the handler returned nil, not true: closed", texts["nil, err"])
    assert.matches("the handler returned false", texts["false"], 1, true)
    assert.matches("the handler returned 1", texts.one, 1, true)
    assert.matches("the handler returned", texts.text, 1, true)
    assert.matches("lost", texts.raise, 1, true)
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-3: runs an event that always fails exactly `attempts` times, then buries it", function()
    local server = serve [[
      for _, attempts in ipairs { 1, 2, 4 } do
        events:on("Fails" .. attempts, function() note("run " .. attempts) end, { attempts = attempts, retry_in = { 0.1, 0.2 } })
      end
    ]]
    for _, attempts in ipairs { 1, 2, 4 } do
      assert(events:enqueue("Fails" .. attempts, { id = 1, event = 1 }))
      command.eventually(function()
        return #assert(events:worker("Fails" .. attempts).queries:morgue_fetch { "1" }) == 1
      end)
      traced("run " .. attempts, attempts)
    end
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-4: keeps the time of a waiting event, and the event that fold says; those that ended do not come again", function()
    for fold, kept in pairs { last = { "B" }, first = { "A" }, merge = { "A", "B" }, list = { "A", "B" } } do
      local made = events:worker("Paid-" .. fold)
      made.fold = fold
      assert(events:enqueue("Paid-" .. fold, { id = 1, event = "A", delay = 1 }))
      local due = assert(made.queries:fetch { "1" })[1].perform_in
      assert(events:enqueue("Paid-" .. fold, { id = 1, event = "B", delay = 600 }))
      assert.equal(due, assert(made.queries:fetch { "1" })[1].perform_in)
      local server = serve(([[
        local failed = false -- once, at B
        events:on("Paid-%s", function(event)
          note("%s event " .. event)
          local ends = failed or event ~= "B"
          failed = failed or not ends
          return ends
        end, { fold = "%s", retry_in = { 0 } })
      ]]):format(fold, fold, fold), "-c", "1")
      gone("Paid-" .. fold)
      traced(fold .. " event A", kept[1] == "A" and 1 or 0)
      traced(fold .. " event B", kept[#kept] == "B" and 2 or 0)
      assert.equal(0, server:stop())
    end
  end)

  it("R-EVENT-7: handles at most max_running events of a type at once", function()
    for id = 1, 12 do
      assert(events:enqueue("Paid", { id = id, event = 1 }))
    end
    assert(events:worker("Paid").actions:pause()) -- until all threads have loaded the application
    local server = serve([[
      seriatim.on_thread_init(function() note("ready") end)
      events:on("Paid", function()
        note("begin")
        native.sleep(0.02)
        note("end")
        return true
      end, { max_running = 2 })
    ]], "-c", "5")
    command.eventually(function() return shell:count_of("ready\n") == 5 end)
    assert(events:worker("Paid").actions:resume())
    traced("end\n", 12)
    local running, most = 0, 0
    for line in shell:trace():gmatch("[^\n]+") do
      running = running + (line == "begin" and 1 or line == "end" and -1 or 0)
      most = math.max(most, running)
    end
    assert.equal(2, most)
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-8: refuses what cannot be", function()
    local function handle() return true end
    for _, count in ipairs { 0, 101, 1.5 } do
      refused("max_running must be", function() events:on("Paid", handle, { max_running = count }) end)
    end
    refused("attempts must be", function() events:on("Paid", handle, { attempts = 101 }) end)
    for _, wait in ipairs { "soon", {}, 5 } do
      refused("retry_in must be", function() events:on("Paid", handle, { retry_in = wait }) end)
    end
    refused("retry_in[2] must be", function() events:on("Paid", handle, { retry_in = { 1, -1 } }) end)
    refused("fold", function() events:on("Paid", handle, { fold = "never" }) end)
    refused("unknown option", function() events:on("Paid", handle, { parallelism = 3 }) end)
    refused("handler must be a function", function() events:on("Paid", 5) end)
    refused("type must be", function() events:on("", handle) end)
    refused("name must not contain", function() seriatim.events "a:b" end)
    refused("enqueue: id is missing", function() events:enqueue("Paid", { event = 1 }) end)
    refused("enqueue: event is missing", function() events:enqueue("Paid", { id = 1 }) end)
    refused("enqueue: event is null", function() events:enqueue("Paid", { id = 1, event = seriatim.null }) end)
    assert.is_false(events:off("Paid"))
    events:on("Paid", handle)
    refused("has a handler already", function() seriatim.events("shop"):on("Paid", handle) end)
    assert.is_true(events:off("Paid"))
  end)

  -- What every state of the server does for a job of Orders; `before` and `after` are locals of the application.
  local ORDERS = [[
    local Orders = seriatim.worker { name = "Orders", perform = function(payloads_by_id)
      for id, payloads in pairs(payloads_by_id) do
        local code = assert((loadstring or load)("local events, note = ... " .. payloads[1], "=order")) -- PUC 5.1's load takes no text
        local done, result = pcall(code, events, note)
        note(("order %s %s"):format(id, tostring(result)))
      end
    end }
  ]]

  -- Has one of the server's states run the code, and gives what it has noted of it.
  local number = 0
  local function order(code)
    number = number + 1
    assert(seriatim.worker({ name = "Orders" }):perform_async { { id = number, payload = code } })
    local pattern = ("order %d ([^\n]*)\n"):format(number)
    return command.eventually(function() return shell:trace():match(pattern) end, 60, function() return shell:trace() end)
  end

  it("R-EVENT-9: serves a type from its `on`, and hands it over at its `off`, in any of a server's states", function()
    local server = serve(ORDERS .. [[
      events:on("Late", function(event) note("first " .. event) return true end)
    ]], "-c", "3")
    assert(events:enqueue("Late", { id = 1, event = "early" }))
    traced("first early")
    assert.equal("true", order 'return events:off("Late")')
    for _ = 1, 10 do
      assert.equal("false", order 'return events:off("Late")') -- in each state
    end
    assert(events:enqueue("Late", { id = 2, event = "after" }))
    local other = serve [[
      events:on("Late", function(event) note("other " .. event) return true end)
    ]]
    traced("other after")
    assert.equal(0, shell:count_of("first after"))
    assert.equal(0, other:stop())
    for time = 1, 3 do
      assert.matches("table", order(([[
        return events:on("Late", function(event)
          local trace = assert(io.open(os.getenv("TRACE"), "a"))
          trace:write(("again %d %%s\n"):format(tostring(event)))
          trace:close()
          return true
        end, { retry_in = { 0.1 } })
      ]]):format(time)), 1, true)
      for id = 1, 12 do
        assert(events:enqueue("Late", { id = id, event = id }))
      end
      traced("again " .. time, 12)
      assert.matches("has a handler already", order 'return events:on("Late", print)', 1, true)
      assert.equal("true", order 'return events:off("Late")')
    end
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-9: an `on` in a server that runs keeps attempts and retry_in, and is refused what other states cannot have", function()
    local server = serve(ORDERS, "-c", "2")
    local refused_note = order 'events:on("Late", function() note("x") end)'
    assert.matches("the handler must not use the local variable note from outside", refused_note, 1, true)
    assert.matches("the handler must be a Lua function", order 'events:on("Late", print)', 1, true)
    assert.matches("retry_in must not use the local variable note", order [[
      events:on("Late", function() return true end, { retry_in = function() return note end })
    ]], 1, true)
    assert.equal("false", order 'return events:off("Late")')
    assert.matches("table", order [[
      return events:on("Late", function()
        local trace = assert(io.open(os.getenv("TRACE"), "a"))
        trace:write("run\n")
        trace:close()
      end, { attempts = 3, retry_in = function(count) return count / 100 end })
    ]], 1, true)
    assert(events:enqueue("Late", { id = 1, event = 1 }))
    command.eventually(function() return #assert(events:worker("Late").queries:morgue_fetch { "1" }) == 1 end)
    traced("run\n", 3)
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-9: runs handlers that on_server_init adds, where a splitter fixed the shards, too", function()
    local server = serve([[
      seriatim.build_splitter = function() return seriatim.build_default_splitter() end
      seriatim.worker { name = "Other", perform = function() end }
      seriatim.on_server_init(function()
        events:on("Late", function(event)
          local trace = assert(io.open(os.getenv("TRACE"), "a"))
          trace:write("late " .. event .. "\n")
          trace:close()
          return true
        end)
      end)
    ]], "-c", "2")
    for id = 1, 12 do
      assert(events:enqueue("Late", { id = id, event = id }))
    end
    traced("late ", 12)
    assert.equal(0, server:stop())
  end)

  it("runs handlers that on_server_init adds also where a server did not start at first", function()
    shell:write("app.lua", command.APP .. 'seriatim.worker { name = "Other", perform = function() end }')
    shell:write("program.lua", ([[
      local seriatim = require "seriatim"
      require("seriatim.server.application").load("./app.lua")
      local server = require("seriatim.server").new { application = "./app.lua", threads = 1 }
      local given = false
      seriatim.on_server_init(function()
        given = given or seriatim.events("shop"):on("Late", function(event)
          local trace = assert(io.open(os.getenv("TRACE"), "a"))
          trace:write("late " .. event .. "\n")
          trace:close()
          return true
        end)
      end)
      seriatim.redis = "redis://127.0.0.1:%s"
      print((pcall(server.start, server)))
      seriatim.redis = os.getenv("REDIS_URL")
      server:start()
      local ends = os.time() + 60
      repeat
        server:keep(0.1)
      until server.failure or os.time() > ends or io.open(os.getenv("TRACE"))
      print(server.failure, server:stop(30))
    ]]):format(redis.free_port()))
    assert(events:enqueue("Late", { id = 1, event = "event" }))
    local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
    local output = command.output_of(("( %s ) 2> %s/err"):format(script, shell.folder))
    assert.equal("false\nnil\ttrue\n", output)
    traced("late event")
  end)

  it("runs only the types of the queues that a server was told", function()
    local server = serve(ORDERS .. [[
      events:on("Paid", function(event) note("paid " .. event) return true end)
      events:on("Sent", function(event) note("sent " .. event) return true end)
    ]], "-q", "Orders", "-q", "shop:Paid")
    order 'events:on("Late", function() return true end)'
    for _, kind in ipairs { "Late", "Sent", "Paid" } do
      assert(events:enqueue(kind, { id = 1, event = kind }))
    end
    traced("paid Paid")
    assert.equal(1, assert(events:worker("Late"):metrics()).length)
    assert.equal(1, assert(events:worker("Sent"):metrics()).length)
    assert.equal(0, server:stop())
  end)

  it("R-EVENT-17: its figures are in /metrics", function()
    for id = 1, 5 do
      assert(events:enqueue("Paid", { id = id, event = id, delay = id <= 3 and 600 or 0 }))
    end
    local body = browser.get(web.new { prefix = "/jobs" }, "/jobs/metrics").body
    for figure, value in pairs { delayed = 3, ready = 2, retrying = 0, pushed_total = 5 } do
      assert.matches(('seriatim_%s{queue="shop:Paid"} %d\n'):format(figure, value), body, 1, true)
    end
  end)

  it("R-EVENT-18: a server that has stopped leaves no connection", function()
    shell:write("app.lua", APP .. [[events:on("Paid", function(event) note("event " .. event) return true end)]])
    shell:write("program.lua", command.APP .. [[
      require("seriatim.server.application").load("./app.lua")
      local events = seriatim.events "shop"
      for id = 1, 10 do
        local server = require("seriatim.server").new { application = "./app.lua", threads = 2 }
        server:start()
        assert(events:enqueue("Paid", { id = id, event = id }))
        repeat
          server:keep(0.01)
          local metrics = assert(events:worker("Paid"):metrics())
        until metrics.length + metrics.busy == 0
        server:stop()
        note("stopped")
      end
      native.sleep(60)
    ]])
    local program = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua"):gsub("exec env", "env")
    os.execute(("( %s ) > /dev/null 2>&1 & echo $! > %s/pid"):format(program, shell.folder))
    traced("stopped\n", 10)
    traced("event ", 10)
    command.eventually(function() return select(2, tostring(redis:call("CLIENT", "LIST")):gsub("name=seriatim%-server", "")) == 0 end)
    assert.equal(2, select(2, tostring(redis:call("CLIENT", "LIST")):gsub("name=seriatim", ""))) -- of this state and of the program
    os.execute(("kill -KILL $(cat %s/pid)"):format(shell.folder))
  end)

  it("R-EVENT-11: keeps events for which nobody has a handler, with the settings of events", function()
    assert(events:enqueue("Sent", { id = 1, event = "A" }))
    assert(events:enqueue("Sent", { id = 1, event = "B" }))
    assert.equal(1, assert(events:worker("Sent"):metrics()).length)
    local server = serve [[
      events:on("Sent", function(event) note("got " .. event) return true end)
    ]]
    traced("got B")
    assert.equal(0, server:stop())
    assert.not_matches("changed its settings", server:log(), 1, true)
  end)

  it("warns of other settings in Redis only where the type was handled", function()
    for _, kind in ipairs { "Alone", "Handled" } do
      redis:call("HSET", ("seriatim:{shop:%s}:settings"):format(kind), "max_retry_count", "3")
    end
    local lines = logged(log.INFO, function()
      assert(events:enqueue("Alone", { id = 1, event = "A" }))
    end)
    assert.equal("", lines)
    events:on("Handled", function() return true end)
    lines = logged(log.INFO, function()
      assert(events:enqueue("Handled", { id = 1, event = "A" }))
    end)
    events:off("Handled")
    assert.matches('queue "shop:Handled" has other settings in Redis than in the code', lines, 1, true)
    assert.matches("max_retry_count: 3, in the code 69", lines, 1, true)
  end)
end)
