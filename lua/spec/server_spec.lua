-- A server: its threads' states, its shares of the shards, its end.
local command = require "support.command"
local native = require "seriatim.native"
local redis_server = require "support.redis_server"
local seriatim = require "seriatim"

local APP = command.APP .. [[
local log = require "seriatim.log"

function seconds()
  return tonumber(os.getenv("SECONDS") or "0")
end

seriatim.lease_time = 3
seriatim.poll_interval = 0.2
]]

local PLAIN = APP .. [[
seriatim.worker { name = "Plain", shards_count = 4, perform = function(payloads_by_id, batch)
  note("begin " .. batch.ids[1] .. " " .. log.thread)
  native.sleep(seconds())
  note("end " .. batch.ids[1])
end }
]]

describe("a server", function()
  local redis, shell

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, nil, function(...)
    redis, shell = ...
  end)

  local function queue(options)
    options = options or {}
    options.name, options.shards_count = options.name or "Plain", options.shards_count or 4
    return seriatim.worker(options)
  end

  local function push_many(made, count)
    local jobs = {}
    for id = 1, count do
      jobs[id] = { id = id }
    end
    assert(made:perform_async(jobs))
  end

  local function serve(app, ...)
    shell:write("app.lua", app)
    return shell:start("-r", "app", ...)
  end

  local function ended(count)
    command.eventually(function() return shell:count_of("end ") >= count end, 60, function() return shell:trace() end)
  end

  it("R-HOOK-1: runs on_server_init once, and on_thread_init once in each thread's state, before any job", function()
    push_many(queue(), 6)
    local server = serve(PLAIN .. [[
      seriatim.on_server_init(function(...) note("init process" .. select("#", ...)) end)
      seriatim.on_thread_init(function(...) note("init thread" .. select("#", ...)) end)
    ]], "-c", "3")
    ended(6)
    command.eventually(function() return shell:count_of("init thread0\n") == 3 end)
    assert.equal(1, shell:count_of("init process0\n"))
    assert.matches("^init process0\ninit thread0\n", shell:trace())
    assert.is_true(shell:trace():find("init thread", 1, true) < shell:trace():find("begin", 1, true))
    assert.equal(0, server:stop())
  end)

  it("sends the push of a job to its own Redis", function()
    local server = serve(APP .. [[
      local Second = seriatim.worker { name = "Second", perform = function(p) note("end " .. next(p)) end }
      seriatim.worker { name = "First", perform = function(p) return Second:perform_async { { id = next(p) .. "b" } } end }
    ]])
    assert(queue { name = "First" }:perform_async { { id = "a" } })
    command.eventually(function() return shell:trace() == "end ab\n" end)
    assert.equal(0, server:stop())
  end)

  it("F9 os.exit() in a job fails that job and ends nothing", function()
    local server = serve(APP .. [[
      seriatim.worker { name = "Exits", perform = function(p)
        if next(p) == "bad" then os.exit(9) end
        note("end " .. next(p))
      end, retry_in = function() return 60 end }
    ]])
    local made = queue { name = "Exits" }
    assert(made:perform_async { { id = "bad" }, { id = "good" } })
    ended(1)
    local record = command.eventually(function() return assert(made.queries:range_by_retry_count(0, 0))[1] end)
    assert.matches("app%.lua:%d+: os%.exit%(%) in a server's thread\n", record.error)
    assert.equal(0, server:stop())
  end)

  it("F34 warns when Redis knows another number of shards", function()
    assert(queue { shards_count = 3 }:perform_async { { id = 1 } })
    local server = serve(PLAIN)
    server:wait_for('WARN [^\n]*queue "Plain" has 3 shards; this server says shards_count = 4, which counts only when a queue is created: ')
    ended(1)
    assert.equal(0, server:stop())
  end)

  it("logs how many dead ids the limits of the morgue removed", function()
    local server = serve(APP .. [[
      seriatim.worker { name = "Mortal", shards_count = 1, max_retry_count = 0, morgue_max_count = 1, perform = function() error("boom") end }
    ]])
    local made = queue { name = "Mortal", shards_count = 1, max_retry_count = 0, morgue_max_count = 1 }
    push_many(made, 3)
    command.eventually(function() return server:log():find("INFO [^\n]* n=%d morgue removed %d dead ids? from shard [^\n]*Mortal") end)
    command.eventually(function() return made:metrics().morgue_removed == 2 end)
    assert.equal(0, server:stop())
  end)

  it("warns of a Redis that may lose jobs", function()
    redis:call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    local server = serve(PLAIN)
    redis:call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert.matches("redis maxmemory%-policy is allkeys%-lru", server:log())
    assert.equal(0, server:stop())
  end)

  it("F32 asks a scheduler of the application, and goes on when it raises or will not choose", function()
    push_many(queue(), 20)
    local server = serve(PLAIN .. [[
      local calls = 0
      seriatim.build_scheduler = function()
        return function(candidates)
          calls = calls + 1
          local first = candidates[1]
          assert(first.worker.name == "Plain" and first.index >= 0 and first.index < 4 and first.lag >= 0 and first.size >= 1)
          if calls == 1 then error("no") end
          if calls > 3 then return candidates[#candidates] end
        end
      end
    ]], "-c", "2")
    ended(20)
    assert.matches("the scheduler raised [^\n]*no; the oldest goes first", server:log())
    assert.equal(0, server:stop())
  end)

  it("holds back what it gets while it is idle, for a scheduler of the application that will not choose", function()
    local server = serve(PLAIN .. [[
      local asked = 0
      seriatim.build_scheduler = function()
        return function(candidates)
          asked = asked + 1
          note("asked")
          if asked > 20 then return candidates[1] end
        end
      end
    ]], "-c", "1")
    command.eventually(function() return server:log():find(" start ", 1, true) end)
    native.sleep(0.5) -- until its thread waits
    push_many(queue(), 1)
    ended(1)
    assert.is_true(shell:count_of("asked") > 20)
    assert.equal(0, server:stop())
  end)

  it("calls retries_exhausted while a scheduler of the application will not choose", function()
    local made = queue { name = "Exhausted", shards_count = 1, max_retry_count = 0 }
    push_many(made, 2)
    local server = serve(APP .. [[
      local is_open = true
      seriatim.build_scheduler = function()
        return function(candidates) return is_open and candidates[1] or nil end
      end
      seriatim.worker {
        name = "Exhausted", shards_count = 1, max_retry_count = 0,
        perform = function()
          is_open = false
          while not io.open(os.getenv("TRACE") .. ".gate") do native.sleep(0.01) end
          error("bad")
        end,
        retries_exhausted = function(jobs) note("told " .. jobs[1].id) end,
      }
    ]], "-c", "1")
    command.eventually(function() return assert(made:metrics()).busy == 2 end) -- one runs, and one is ready
    shell:write("trace.gate", "")
    command.eventually(function() return shell:trace() == "told 1\n" end)
    assert.equal(0, server:stop())
  end)

  it("shows a scheduler the shards that were added after the start", function()
    local made = queue { name = "Grown", shards_count = 1 }
    local server = serve(APP .. [[
      seriatim.build_scheduler = function()
        return function(candidates) note("shown " .. #candidates) end
      end
      seriatim.worker { name = "Grown", shards_count = 1, perform = function() end }
    ]], "-c", "5")
    assert(made.actions:reshard(5))
    command.eventually(function()
      local metrics = assert(made:metrics())
      return not metrics.resharding and #metrics.shards == 5
    end)
    push_many(made, 50)
    command.eventually(function() return shell:count_of("shown 5\n") > 0 end)
    assert.equal(0, server:stop())
  end)

  local CHANGES = {
    ["sorts its list"] = "table.sort(list, function(a, b) return a.index > b.index end) return list[1]",
    ["removes from its list"] = "if #list > 1 then table.remove(list, 1) end return list[1]",
    ["empties its list"] = "local last = list[#list] for at = #list, 1, -1 do list[at] = nil end return last",
    ["gives a copy of a candidate"] = "local last = list[#list] return { worker = last.worker, index = last.index }",
  }
  for name, change in pairs(CHANGES) do
    it("runs the shard that a scheduler chose which " .. name, function()
      push_many(queue { name = "Chooser", shards_count = 3 }, 12)
      local server = serve(APP .. [[
        local function choose(list) ]] .. change .. [[ end
        local chosen
        seriatim.build_scheduler = function()
          return function(list)
            local candidate = choose(list)
            chosen = candidate.index
            return candidate
          end
        end
        seriatim.worker { name = "Chooser", shards_count = 3, perform = function(payloads_by_id)
          local shard = native.shard_of(next(payloads_by_id), 3)
          note(("end %d %s"):format(shard, shard == chosen and "right" or "wrong"))
        end }
      ]], "-c", "1")
      ended(12)
      assert.equal(0, shell:count_of("wrong\n"))
      for shard = 0, 2 do
        assert.is_true(shell:count_of(("end %d right\n"):format(shard)) > 0)
      end
      assert.is_nil(server:log():find("the scheduler", 1, true))
      assert.equal(0, server:stop())
    end)
  end

  local JUNK = {
    ["return 5"] = "chose 5 (number), which is not one of its candidates",
    ["return false"] = "chose false (boolean), which is not one of its candidates",
    ["return setmetatable({}, { __index = error, __eq = error })"] = "chose a table, which is not one of its candidates",
    ["error('no')"] = "the scheduler raised ",
  }
  for body, said in pairs(JUNK) do
    it("logs once what no scheduler may do, and takes the oldest: " .. body, function()
      push_many(queue(), 10)
      local server = serve(PLAIN .. "seriatim.build_scheduler = function() return function() " .. body .. " end end", "-c", "1")
      ended(10)
      assert.is_truthy(server:log():find(said, 1, true))
      assert.equal(1, select(2, server:log():gsub("the scheduler %w+ [^\n]*; the oldest goes first", "%0")))
      assert.equal(0, server:stop())
    end)
  end

  it("takes the core's schedulers", function()
    push_many(queue(), 5)
    for _, name in ipairs { "build_seq_scheduler", "build_priority_scheduler" } do
      local server = serve(PLAIN .. "seriatim.build_scheduler = seriatim." .. name)
      ended(5)
      assert.equal(0, server:stop())
    end
  end)

  it("gives each group of a splitter a thread", function()
    push_many(queue(), 12)
    local server = serve(PLAIN .. [[
      seriatim.build_splitter = function()
        return function(shards)
          return { { shards[1] }, {}, { shards[2], shards[3], shards[4] } }
        end
      end
    ]], "-c", "5")
    assert.matches("with 2 threads", server:log())
    ended(12)
    assert.is_true(shell:count_of("host-1\n") > 0 and shell:count_of("host-2\n") > 0)
    assert.equal(12, shell:count_of("host-1\n") + shell:count_of("host-2\n"))
    assert.equal(0, server:stop())
  end)

  it("F32 a splitter that gives no shard is a usage error", function()
    shell:write("app.lua", PLAIN .. "seriatim.build_splitter = function() return function() return {} end end")
    local output, code = shell:run("-r", "app")
    assert.matches("the splitter gives this node no shard", output)
    assert.equal(2, code)
  end)

  local SPLITS = "build_splitter: the splitter must give a list of groups, each a list of shards out of those it was given, or nil, not "
  local MISUSE = {
    ["build_splitter = function() return 5 end"] = "build_splitter must give a function .*, not 5 %(number%)",
    ["build_scheduler = function() return 7 end"] =
      "build_scheduler must give one of seriatim's schedulers or a function .*, not 7 %(number%)",
    ["build_scheduler = function() end"] = "build_scheduler must give one of .*, not nil",
    ["build_splitter = function() return function() return 5 end end"] = SPLITS .. "5 %(number%)",
    ["build_splitter = function() return function(s) return s end end"] = SPLITS .. "a table",
    ["build_splitter = function() return function() return { { 5 } } end end"] = SPLITS .. "5 %(number%)",
    ["build_splitter = function() return function(s) return { { s[1], s[2] }, { s[2] } } end end"] =
      "build_splitter: the splitter gives shard 1 of queue 'Plain' twice",
    ["server_middlewares = {} table.insert(seriatim.server_middlewares, 5)"] = "server_middlewares%[1%] must be a function, not 5 %(number%)",
    ["client_middlewares = {} table.insert(seriatim.client_middlewares, 5)"] = "client_middlewares%[1%] must be a function, not 5 %(number%)",
    ["workers = { seriatim.worker { name = 'Idle' } }"] =
      "workers: Idle has no perform; write `perform = function%(payloads_by_id%) end` in its options",
    ["poll_interval = 1 seriatim.worker { name = 'Idle' }"] = "workers: Idle has no perform",
  }
  for misuse, said in pairs(MISUSE) do
    it("is refused before it starts: " .. misuse, function()
      shell:write("app.lua", PLAIN .. "seriatim." .. misuse)
      local output, code = shell:run("-r", "app")
      assert.matches(said, output)
      assert.equal(2, code)
      assert.is_nil(output:find("start node", 1, true))
    end)
  end

  it("takes a splitter that changes its list and copies shards", function()
    push_many(queue(), 12)
    local server = serve(PLAIN .. [[
      seriatim.build_splitter = function()
        return function(shards)
          local one = table.remove(shards)
          return { { { worker = one.worker, index = one.index } }, shards }
        end
      end
    ]])
    ended(12)
    assert.matches("with 2 threads", server:log())
    assert.equal(0, server:stop())
  end)

  for _, splitter in ipairs { "seriatim.build_default_splitter()", "seriatim.build_by_node_splitter(1, 0)",
    "function(shards) return seriatim.build_default_splitter()(shards) end" } do
    it("starts as many threads as it was told with " .. splitter, function()
      shell:write("app.lua", PLAIN .. "seriatim.threads_per_node = 4 seriatim.build_splitter = function() return " .. splitter .. " end")
      shell:write("program.lua", [[
        require("seriatim.server.application").load("./app.lua")
        local server = require("seriatim.server").new { application = "./app.lua", threads = 2 }
        server:start()
        print(#server.threads, server:stop())
      ]])
      local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
      assert.matches("^2%s+true", command.output_of(("( %s ) 2> %s/err"):format(script, shell.folder)))
    end)
  end

  it("refuses a timeout of stop that is no number of seconds, and the server goes on", function()
    shell:write("app.lua", PLAIN)
    shell:write("program.lua", [[
      require("seriatim.server.application").load("./app.lua")
      local server = require("seriatim.server").new { application = "./app.lua", threads = 1 }
      server:start()
      for _, timeout in ipairs { "5", -1, false, 86401 } do
        print(select(2, pcall(server.stop, server, timeout)))
      end
      print(server.runner:stopped(), server:stop(30))
    ]])
    local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
    local output = command.output_of(("( %s ) 2> %s/err"):format(script, shell.folder))
    for _, given in ipairs { "'5' %(string%)", "%-1 %(number%)", "false %(boolean%)", "86401 %(number%)" } do
      assert.matches("timeout must be a number of seconds from 0 to 86400, not " .. given, output)
    end
    assert.matches("false%s+true%s*$", output)
  end)

  it("F22 busy threads do not cost the lease", function()
    local server = serve(APP .. [[
      seriatim.lease_time = 8
      seriatim.worker { name = "Plain", perform = function(p)
        local finish = native.now_ms() + 12000
        while native.now_ms() < finish do end
        note("end " .. next(p))
      end }
    ]], "-c", "3")
    command.eventually(function() return #assert(seriatim.nodes()) == 1 end)
    push_many(queue(), 3)
    command.eventually(function()
      assert.equal(1, #assert(seriatim.nodes()))
      return shell:count_of("end ") == 3
    end)
    assert.equal(0, server:stop())
    assert.is_nil(server:log():find("lost", 1, true))
    assert.equal(3, assert(queue():metrics()).processed)
    assert.equal(0, assert(queue():metrics()).refused)
  end)

  it("R-REDIS-4: goes on when Redis comes back", function()
    local own = redis_server.start()
    shell.redis = own.url
    local server = serve(PLAIN)
    server:wait_for("connected to Redis")
    own:stop()
    native.sleep(0.3)
    own:begin()
    seriatim.redis = own.url
    push_many(queue(), 2)
    ended(2)
    server:wait_for("WARN [^\n]* link ")
    assert.equal(0, server:stop())
    own:remove()
  end)

  it("shares a queue with another one, and gets all of it when the other ends", function()
    shell:write("app.lua", PLAIN)
    local first, second = shell:start("-r", "app"), shell:start("-r", "app")
    command.eventually(function() return #assert(seriatim.nodes()) == 2 end)
    command.eventually(function()
      local owners = {}
      for _, shard in ipairs(assert(queue():metrics()).shards or {}) do
        owners[shard.owner or ""] = (owners[shard.owner or ""] or 0) + 1
      end
      local counts = {}
      for _, count in pairs(owners) do counts[#counts + 1] = count end
      return #counts == 2 and counts[1] == 2 and counts[2] == 2
    end)
    assert.equal(0, first:stop())
    push_many(queue(), 8)
    ended(8)
    assert.equal(0, second:stop())
    assert.same({}, assert(seriatim.nodes()))
  end)

  it("raises an error that blames no Redis when there is no descriptor, and may be started again", function()
    shell:write("app.lua", PLAIN)
    shell:write("program.lua", [[
      require("seriatim.server.application").load("./app.lua")
      local native = require "seriatim.native"
      local server = require("seriatim.server").new { application = "./app.lua", threads = 2 }
      local function limit(soft)
        os.execute(("n=0; while [ -e /proc/%d/fd/$n ]; do n=$((n + 1)); done; prlimit --pid %d --nofile=%s:"):format(
          native.getpid(), native.getpid(), soft))
      end
      local _, raised = pcall(server.start, server, function() limit "$n" end)
      limit "1024"
      print(raised, server:stop())
      print(server:start() == server, server:stop(30))
    ]])
    local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
    local output = command.output_of(("( %s ) 2> %s/err"):format(script, shell.folder))
    assert.matches("^SYSTEM: cannot open a pipe: [^\n]-%s+true\ntrue%s+true", output)
  end)

  it("ends with exit code 1, and does not say that there is no Redis, when there is no thread", function()
    shell:write("app.lua", PLAIN .. [[
      local make, count = native.thread, 0
      native.thread = function(...)
        count = count + 1
        if count == 2 then return nil, "IO", "Resource temporarily unavailable" end
        return make(...)
      end
    ]])
    local output, code = shell:run("-r", "app", "-c", "2")
    assert.matches("FATAL [^\n]* exit Resource temporarily unavailable\n", output)
    assert.is_nil(output:find("no Redis", 1, true))
    assert.equal(1, code)
    assert.same({}, assert(seriatim.nodes()))
  end)

  it("may be run inside a program", function()
    push_many(queue(), 3)
    shell:write("app.lua", PLAIN)
    shell:write("program.lua", [[
      require("seriatim.server.application").load("./app.lua")
      local server = require("seriatim.server").new { application = "./app.lua", threads = 2 }
      for _, early in ipairs { server.stats, server.quiet } do
        print(pcall(early, server))
      end
      server:start()
      local stats
      for _ = 1, 1200 do
        server:keep(0.05)
        stats = server:stats()
        if stats.shards == 4 and stats.processed == 3 then break end
      end
      print(stats.shards, server:stop(), server:stop())
      print(pcall(server.start, server))
    ]])
    local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
    local output = command.output_of(("( %s ) 2> %s/err"):format(script, shell.folder))
    local early = "false%s+CLOSED: the server has not started\n"
    assert.matches("^" .. early .. early .. "4%s+true%s+true\nfalse%s+CLOSED: a server starts once", output)
    assert.equal(3, shell:count_of("end "))
  end)
end)

-- ---- -p

describe("several processes", function()
  local shell

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, nil, function(_, made)
    shell = made
  end)

  local MANY = APP .. [[
    seriatim.worker { name = "Many", shards_count = 4, max_retry_count = 1, retry_in = function() return 0.1 end,
      perform = function(payloads_by_id, batch)
        local id = batch.ids[1]
        note(id .. " begin " .. native.getpid())
        if id == "kill" then native.exit(9) end
        native.sleep(seconds())
        note(id .. " end")
      end }
  ]]

  local function many()
    return seriatim.worker { name = "Many", shards_count = 4, max_retry_count = 1 }
  end

  local function start(arguments, nodes)
    shell:write("app.lua", MANY .. (arguments.more or ""))
    for place, word in ipairs { "-r", "app", "-p", "2" } do
      table.insert(arguments, place, word)
    end
    arguments.wait = false
    local server = shell:start(arguments)
    command.eventually(function() return #assert(seriatim.nodes()) >= (nodes or 2) end, 60, function() return server:log() end)
    return server
  end

  local function are_gone(pids)
    for _, pid in ipairs(pids) do
      if command.is_alive(pid) then
        return false
      end
    end
    return true
  end

  it("R-PROCESS-1: run and stop together", function()
    local server = start { "-c", "1" }
    local jobs = {}
    for id = 1, 40 do jobs[id] = { id = id } end
    assert(many():perform_async(jobs))
    command.eventually(function() return shell:count_of(" end") == 40 end)
    assert.equal(0, server:stop())
    assert.equal(2, #server:pids())
    assert.is_true(are_gone(server:pids()))
    assert.same({}, assert(seriatim.nodes()))
    assert.equal(40, assert(many():metrics()).processed)
  end)

  it("are started again when the dashboard stopped one", function()
    local server = start {}
    local nodes = command.eventually(function()
      local living = assert(seriatim.nodes())
      return #living == 2 and living
    end)
    assert.is_true(seriatim.stop_node(nodes[1].name))
    command.eventually(function()
      local names = {}
      for place, node in ipairs(assert(seriatim.nodes())) do
        names[place], names[node.name] = node.name, true
      end
      return #names == 2 and names[nodes[2].name] and not names[nodes[1].name]
    end)
    server:wait_for(" stop process %d %(pid %d+%) ended: exit 0")
    assert.is_nil(server:log():find(" crash ", 1, true))
    assert.equal(0, server:stop())
  end)

  it("R-PROCESS-2: are started again after a crash", function()
    local server = start {}
    local victim = server:pids()[1]
    os.execute("kill -KILL " .. victim)
    server:wait_for(("crash process 1 %%(pid %d%%) ended: SIGKILL %%(signal 9%%)"):format(victim))
    command.eventually(function() return #server:pids() == 3 end)
    assert(many():perform_async { { id = "a" }, { id = "b" } })
    command.eventually(function() return shell:count_of(" end") == 2 end)
    assert.equal(0, server:stop())
  end)

  it("R-CRASH-3: bury a job that kills every time, and run the rest", function()
    local server = start { "-c", "2", more = "seriatim.dump_error = function(text) return '<' .. text .. '>' end" }
    local jobs = { { id = "kill" } }
    for id = 1, 20 do jobs[id + 1] = { id = "good" .. id } end
    assert(many():perform_async(jobs))
    command.eventually(function() return assert(many():metrics()).morgue_length == 1 end, 120, function() return server:log() end)
    assert.equal("<worker died>", assert(many().queries:morgue_fetch { "kill" })[1].error)
    command.eventually(function() return assert(many():metrics()).length + assert(many():metrics()).busy == 0 end, 60)
    assert.is_true(shell:count_of("kill begin") <= 4)
    assert.matches("ended: exit 9", server:log())
    assert.equal(0, server:stop())
  end)

  it("R-PROCESS-3: end when their supervisor dies", function()
    local server = start {}
    local pids = server:pids()
    server:signal("KILL")
    command.eventually(function() return are_gone(pids) end)
  end)

  it("get the signals that the supervisor gets", function()
    local server = start {}
    server:signal("TTIN")
    command.eventually(function() return select(2, server:log():gsub(" thread main: ", "")) == 2 end)
    server:signal("TSTP")
    command.eventually(function() return select(2, server:log():gsub(" quiet ", "")) == 2 end)
    assert.equal(0, server:stop("INT"))
  end)

  it("R-SIGNAL-4: claim nothing when they are started again after TSTP", function()
    local server = start {}
    server:signal("TSTP")
    command.eventually(function() return select(2, server:log():gsub(" quiet ", "")) == 2 end)
    assert(many():perform_async { { id = "late" } })
    for _, pid in ipairs(server:pids()) do
      os.execute("kill -KILL " .. pid)
    end
    command.eventually(function()
      local log = server:log()
      return select(2, log:gsub("start node", "")) == 4 and select(2, log:gsub(" quiet ", "")) == 4
    end)
    native.sleep(4) -- longer than the lease of the killed ones
    assert.equal("", shell:trace())
    assert.equal(0, server:stop())
  end)

  it("complete what runs when a TERM reaches every one of them", function()
    local server = start { "-c", "1", env = { SECONDS = "1" } }
    assert(many():perform_async { { id = "a" } })
    command.eventually(function() return shell:trace():find("a begin", 1, true) end)
    for _, pid in ipairs(server:pids()) do
      os.execute("kill -TERM " .. pid)
    end
    assert.equal(0, server:stop())
    assert.matches("a end", shell:trace())
  end)

  it("F20 are killed at once by a second TERM", function()
    local server = start { env = { SECONDS = "30" } }
    assert(many():perform_async { { id = "a" } })
    command.eventually(function() return shell:trace():find("a begin", 1, true) end)
    server:signal_taken("TERM")
    native.sleep(1.1) -- a second one within a second would be none
    local began = native.now_ms()
    assert.equal(1, server:stop())
    command.eventually(function() return are_gone(server:pids()) end)
    assert.is_true(native.now_ms() - began < 22000) -- the deadline is at 25
  end)

  it("are killed when they do not stop in time", function()
    local server = start({ "-t", "0.5", more = [[
      local log = require "seriatim.log"
      local write = log.output
      log.output = function(line, ...)
        if line:find("start node", 1, true) then note("holds") native.sleep(60) end
        return write(line, ...)
      end
    ]] }, 0)
    command.eventually(function() return shell:count_of("holds") == 2 end)
    assert.equal(1, server:stop())
    assert.matches("killing processes that did not stop in 5%.5 s: %d+, %d+", server:log())
    assert.is_true(are_gone(server:pids()))
  end)

  it("F20 end at a TERM while they load", function()
    local server = start({ more = [[
      for _, word in ipairs(arg or {}) do
        if word == "--parent" then native.sleep(30) end
      end
    ]] }, 0)
    command.eventually(function() return #server:pids() == 2 end)
    local began = native.now_ms()
    assert.equal(0, server:stop())
    assert.is_true(native.now_ms() - began < 25000) -- they load for 30
  end)

  it("are not started again when the application fails while it loads", function()
    shell:write("app.lua", MANY .. "error('broken', 0)")
    local output, code = shell:run("-r", "app", "-p", "2")
    assert.matches("seriatim: %./app%.lua:%d+: broken", output)
    assert.is_nil(output:find("has pid", 1, true))
    assert.equal(2, code)
  end)

  it("are not started again after exit codes that a new start would repeat", function()
    shell:write("app.lua", MANY .. [[
      seriatim.on_server_init(function() require("seriatim.errors").usage("no such shop") end)
    ]])
    local output, code = shell:run("-r", "app", "-p", "2")
    assert.matches("crash process %d %(pid %d+%) ended: exit 2", output)
    assert.matches("seriatim: no such shop", output)
    assert.equal(2, code)
  end)

  it("R-PROCESS-2: are started again when one finds no Redis while another has served for a minute", function()
    local server = start { more = [[
      local function is_away()
        local file = io.open("away")
        return file and file:close()
      end
      seriatim.on_server_init(function()
        if is_away() then error(require("seriatim.errors").new("IO", "away"), 0) end
      end)
      local is_supervisor = arg ~= nil
      for _, word in ipairs(arg or {}) do is_supervisor = is_supervisor and word ~= "--parent" end
      if is_supervisor then
        local now_ms, later = native.now_ms, nil
        native.now_ms = function()
          later = later or is_away() and 60000
          return now_ms() + (later or 0)
        end
      end
    ]] }
    local function started() return select(2, server:log():gsub(" start node ", "")) end
    command.eventually(function() return started() == 2 end) -- a node registers before it logs
    local first, second = server:pids()[1], server:pids()[2]
    shell:write("away", "")
    os.execute("kill -KILL " .. first)
    server:wait_for("crash process 1 %(pid %d+%) ended: exit 3")
    os.remove(shell.folder .. "/away")
    command.eventually(function() return started() == 3 end)
    assert.is_true(command.is_alive(second))
    assert.equal(0, server:stop())
  end)

  it("R-PROCESS-2: are tried again later when one cannot be started again, and the others go on", function()
    local server = start { more = [[
      local spawn, now_ms, starts, later = native.spawn, native.now_ms, 0, 0
      native.spawn = function(...)
        starts = starts + 1
        if starts ~= 3 then return spawn(...) end
        later = 31000 -- longer than the pause
        return nil, "IO", "Resource temporarily unavailable"
      end
      native.now_ms = function() return now_ms() + later end
    ]] }
    local first, second = server:pids()[1], server:pids()[2]
    os.execute("kill -KILL " .. first)
    server:wait_for("crash process 1 of 2 cannot be started: IO: Resource temporarily unavailable")
    command.eventually(function() return #server:pids() == 3 end)
    assert.is_true(command.is_alive(second))
    assert.equal(0, server:stop())
  end)

  it("are started again after longer and longer pauses when they end quickly", function()
    local server = start({ more = [[
      seriatim.on_server_init(function() note(native.getpid() .. " at " .. native.now_ms()); error("no database", 0) end)
    ]] }, 0)
    local times = command.eventually(function()
      local found, trace = {}, shell:trace()
      for pid in server:log():gmatch("process 1 of 2 has pid (%d+)") do
        found[#found + 1] = tonumber(trace:match("%f[%d]" .. pid .. " at (%d+)"))
      end
      return #found >= 3 and found
    end)
    assert.is_true(times[2] - times[1] > 900 and times[3] - times[2] > 3500)
    assert.is_true(server:stop() <= 1)
  end)
end)
