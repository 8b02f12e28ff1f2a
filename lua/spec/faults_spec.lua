-- What a server's process survives: the faults of user code, of signals and of its own end that need threads. F9, F12, F20 to F24.
local command = require "support.command"
local figures = require "support.figures"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"
local ways = require "support.ways"

local APP = command.APP .. [[

seriatim.lease_time = 3
seriatim.poll_interval = 0.2

local function later()
  return 3600
end

seriatim.worker { name = "Leaves", shards_count = 4, retry_in = later, perform = function(payloads_by_id)
  local way = select(2, next(payloads_by_id))[1]
  if way ~= "good" then
    return require("support.ways").named()[way][2]()
  end
end }

local function begun(id)
  local trace = io.open(os.getenv("TRACE"))
  local found = trace and trace:read("*a"):find(id .. " begin", 1, true)
  if trace then
    trace:close()
  end
  return found
end

local function spin()
  while true do
    string.rep("x", 100)
  end
end

-- Spins at its first start, for ever.
seriatim.worker { name = "Endless", shards_count = 4, ttr = 3, perform = function(payloads_by_id, batch)
  local id = batch.ids[1]
  local is_first = id == "endless" and not begun(id)
  note(id .. " begin")
  if is_first then
    spin()
  end
  note(id .. " end")
end }

seriatim.worker { name = "Naps", shards_count = 4, fold = "list", perform = function(payloads_by_id)
  local id, payloads = next(payloads_by_id)
  native.sleep(payloads[1] % 100 / 100)
  for _, number in ipairs(payloads) do
    note(("%s %d end"):format(id, number))
  end
end }
]]

describe("a server survives", function()
  local shell

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, APP, function(_, made)
    shell = made
  end)

  local function queue(name, options)
    options = options or {}
    options.name, options.shards_count = name, 4
    return seriatim.worker(options)
  end

  local function serve(app, ...)
    if app then
      shell:write("app.lua", app)
    end
    local path = ("%sspec/?.lua;%s"):format(command.root, command.lua_path())
    return shell:start { "-r", "app", env = { LUA_PATH = path }, ... }
  end

  local function until_figures(made, expected, server)
    local found
    command.eventually(function()
      found = assert(made:metrics())
      for name, value in pairs(expected) do
        if found[name] ~= value then
          return false
        end
      end
      return true
    end, 100, function() return native.dump(found, "figures") .. server:log():sub(-2000) end)
  end

  it("F9 every way to leave a job, again and again, in every thread", function()
    local made, times, list = queue "Leaves", figures.count(2, 100), {}
    for name in pairs(ways.named()) do
      for time = 1, times do
        list[#list + 1] = { id = ("%s %d"):format(name, time), payload = name }
        list[#list + 1] = { id = ("good %s %d"):format(name, time), payload = "good" }
      end
    end
    assert(made:perform_async(list))
    local server = serve(nil, "-c", "3")
    until_figures(made, { processed = #list / 2, failed = #list / 2, retries = #list / 2, busy = 0 }, server)
    for _, record in ipairs(assert(made.queries:range_by_id("-", "+", { limit = 1000 }))) do
      local way = ways.named()[record.payloads[1][1]]
      assert(record.retry_count == 0 and record.error:match("^[^\n]*"):find(way[3]), ("%s: %s"):format(record.id, record.error:sub(1, 200)))
    end
    assert.equal(0, server:stop(nil, 60))
    assert.is_nil(server:log():find(" crash ", 1, true))
    figures.note("F9", "ways to leave a job, times each, Lua", ("%d x %d"):format(#list / 2 / times, times))
  end)

  -- LuaJIT itself may fall over what these raise; in 5.1 the hook comes back with each run of its job.
  local it_in_54 = _VERSION == "Lua 5.4" and it or function() end

  it_in_54("F9 a finalizer that raises, and a hook that a job leaves behind", function()
    local server = serve(APP .. [[
      local function raise() error("in passing") end
      local function trap()
        setmetatable({}, { __gc = raise })
      end
      seriatim.worker { name = "Traps", shards_count = 4, retry_in = function() return 0.01 end, max_retry_count = 1000,
        perform = function(payloads_by_id)
          for _ = 1, 20 do trap() end
          if next(payloads_by_id) == "hook" then debug.sethook(raise, "", 50) end
          note("end " .. next(payloads_by_id))
        end }
    ]], "-c", "2")
    local made, list = queue "Traps", { { id = "hook" } }
    for id = 1, figures.count(200, 5000) do
      list[#list + 1] = { id = id }
    end
    assert(made:perform_async(list))
    command.eventually(function()
      return assert(made:metrics()).processed >= #list - 1
    end, 100, function() return server:log():sub(-3000) end)
    assert.equal(0, server:stop())
  end)

  it("F9 an application that allows no new global and no unknown one", function()
    local strict = [[
      setmetatable(_G, { __newindex = function(_, name) error("global " .. tostring(name), 2) end,
        __index = function(_, name) error("no global " .. tostring(name), 2) end })
    ]]
    local server = serve(APP .. strict, "-c", "2")
    local made = queue "Naps"
    assert(made:perform_async { { id = "a", payload = 1 } })
    command.eventually(function() return shell:trace() == "a 1 end\n" end, 60, function() return server:log() end)
    assert.equal(0, server:stop())
  end)

  it("F12 one payload of 1,000 that cannot be read", function()
    local raw, list = queue("Leaves", { codec = "raw" }), {}
    for id = 1, 1000 do
      list[id] = { id = id, payload = id == 500 and "{\255" or '"good"' }
    end
    assert(raw:perform_async(list))
    local server = serve(nil, "-c", "3")
    until_figures(raw, { processed = 999, failed = 0, morgue_length = 1, length = 0, busy = 0 }, server)
    local dead = assert(raw.queries:morgue_fetch { 500 })[1]
    assert.equal("{\255", dead.payloads[1][1])
    assert.matches("undecodable payload", dead.error)
    assert.equal(0, server:stop())
  end)

  it("F21 TERM while jobs of all lengths run: nothing is lost, nothing stays claimed", function()
    local made, times, number = queue("Naps", { fold = "list" }), figures.count(3, 100), 0
    for _ = 1, times do
      local server, list = serve(nil, "-c", "4", "-t", "0.3"), {}
      for id = 1, 12 do
        number = number + 1
        list[id] = { id = id, payload = number }
      end
      assert(made:perform_async(list))
      native.sleep(math.random() * 0.4)
      assert.equal(0, server:stop())
      assert.same({}, assert(made.queries:processing_data()))
      assert.same({}, assert(seriatim.nodes()))
    end
    local server = serve(nil, "-c", "12")
    command.eventually(function()
      local found = assert(made:metrics())
      return found.length + found.busy == 0
    end, 120)
    for job = 1, number do
      assert(shell:trace():find((" %d end\n"):format(job), 1, true), "lost: " .. job)
    end
    assert.equal(0, assert(made:metrics()).failed)
    assert.equal(0, server:stop())
    figures.note("F21", "TERMs, Lua", times)
  end)

  it("F22 a job that never returns: its ttr ends, others go on, TTIN shows it, TERM ends the process", function()
    local made, list = queue("Endless", { ttr = 3 }), { { id = "endless" } }
    for id = 1, 40 do
      list[#list + 1] = { id = id }
    end
    local server = serve(nil, "-c", "2", "-t", "0.3")
    assert(made:perform_async(list))
    command.eventually(function() return shell:count_of(" end\n") == 41 end, 100, function() return server:log() .. shell:trace() end)
    assert.equal(2, shell:count_of("endless begin\n"))
    local spins = suite.has_int64 and " thread host%-%d: no answer" or " thread host%-%d: [^\n]*app%.lua:%d+: in[^\n]*spin"
    command.eventually(function() -- a thread has 0.1 s to answer, which is not enough on a busy machine
      server:signal("TTIN")
      native.sleep(0.5)
      return server:log():find(spins)
    end, 30, function() return server:log() end)
    local began = native.now_ms()
    assert.equal(0, server:stop())
    assert.is_true(native.now_ms() - began < 25000)
    until_figures(made, { length = 0, busy = 0 }, server)
    assert.same({}, assert(seriatim.nodes()))
  end)

  -- ---- F23

  local PROGRAM = [[
    require("seriatim.server.application").load("./app.lua")
    local native = require "seriatim.native"
    local server = require("seriatim.server").new { application = "./app.lua", threads = 3 }
    server:start()
    server:keep(%g)
    native.sleep(%g)
    %s
  ]]

  -- what ends the program, and its exit code
  local ENDS = {
    { "", 0 },
    { "error('ends')", 1 },
    { "os.exit(7)", 7 },
    { "os.exit(7, true)", 7 },
    { "server = nil; collectgarbage(); collectgarbage()", 0 },
    { "native.exit(8)", 8 },
    { "server:stop(0)", 0 },
  }

  it("F23 the end of its interpreter while threads wait and run", function()
    shell:write("app.lua", APP)
    local made, times = queue("Naps", { fold = "list" }), figures.count(14, 210)
    for time = 1, times do
      local finish = ENDS[time % #ENDS + 1]
      assert(made:perform_async { { id = time, payload = 20 }, { id = "x" .. time, payload = 90 } })
      shell:write("program.lua", PROGRAM:format(0.02, math.random() * 0.1, finish[1]))
      local script = shell:line({}):gsub("'[^']*seriatim%-lua'", "program.lua")
      local began = native.now_ms()
      local output = command.output_of(("( %s ) 2>&1; echo code $?"):format(script))
      assert(output:find(("code %d\n$"):format(finish[2])), ("%s: %s"):format(finish[1], output))
      assert(native.now_ms() - began < 60000, finish[1])
    end
    figures.note("F23", "interpreters that ended under their threads, Lua", times)
  end)
end)
