-- Signals act at once, whatever the server's threads do.
local command = require "support.command"
local counts = require "support.figures"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local APP = command.APP .. [[

seriatim.lease_time = 10
seriatim.poll_interval = 0.2
seriatim.threads_per_node = 4

local KINDS = {}

local function is_gate_open()
  local gate = io.open(os.getenv("TRACE") .. ".gate")
  return gate and gate:close()
end

function KINDS.gate()
  while not is_gate_open() do
    native.sleep(0.01)
  end
end
function KINDS.sleep(seconds)
  native.sleep(seconds)
end

function KINDS.spin(seconds)
  local finish = native.now_ms() + seconds * 1000
  while native.now_ms() < finish and not is_gate_open() do
    string.rep("x", 100)
  end
end

function KINDS.hold(seconds) -- in C code that answers nothing; system(3) ignores INT meanwhile
  os.execute("sleep " .. seconds)
end

seriatim.worker { name = "Busy", perform = function(payloads_by_id)
  local id = next(payloads_by_id)
  note(id .. " begin")
  KINDS[os.getenv("KIND")](tonumber(os.getenv("SECONDS") or "60"))
  note(id .. " end")
end }
]]

local ACT_WITHIN = 45000 -- milliseconds: what is less than 50 on a quiet machine, 60000 where it waits for the job

describe("signals", function()
  local redis, shell

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, APP, function(server, made)
    redis, shell = server, made
  end)

  local function queue()
    return seriatim.worker { name = "Busy" }
  end

  local function serve(kind, ids, seconds, ...)
    local server = shell:start { "-r", "app", env = { KIND = kind, SECONDS = tostring(seconds) }, ... }
    local jobs = {}
    for id = 1, ids do
      jobs[id] = { id = id }
    end
    if ids > 0 then
      assert(queue():perform_async(jobs))
      command.eventually(function() return shell:count_of(" begin") >= ids end)
    end
    return server
  end

  ---Milliseconds from the signal until `act` returns.
  local function time_of(server, signal, act)
    local began = native.now_ms()
    server:signal(signal)
    act()
    return native.now_ms() - began
  end

  for _, row in ipairs { { "sleep", 4 }, { "spin", 4 }, { "hold", 4 }, { "sleep", 0 } } do
    it(("F20 every one acts at once: %d times %s"):format(row[2], row[1]), function()
      local server = serve(row[1], row[2], 60)
      local took = {
        time_of(server, "TTIN", function() server:wait_for(" thread main: ") end),
        time_of(server, "TSTP", function() server:wait_for(" quiet ") end),
      }
      local first = row[1] == "hold" and "TERM" or "INT"
      if row[2] == 0 then
        took[3] = time_of(server, first, function() server:wait() end)
      else
        server:signal_taken(first)
        native.sleep(1.1) -- a second TERM within a second would be none
        took[3] = time_of(server, "TERM", function() server:wait() end)
      end
      assert.equal(row[2] == 0 and 0 or 1, server:code())
      if row[2] > 0 then
        assert.matches("a second signal ended the process at once; unfinished: 4 ids: %S+ %d, %S+ %d, %S+ %d, %S+ %d\n", server:log())
      end
      for place, milliseconds in ipairs(took) do
        assert(milliseconds < ACT_WITHIN, ("signal %d took %d ms"):format(place, milliseconds))
      end
    end)
  end

  local function node()
    return assert(seriatim.nodes())[1] or {}
  end

  local function wait_until_it_stops()
    command.eventually(function() return node().state == "stopping" end)
  end

  it("F21, R-SIGNAL-1: TERM completes what runs and leaves what is queued", function()
    local server = serve("gate", 1, 0, "-c", "1")
    assert(queue():perform_async { { id = "queued" } })
    local began = native.now_ms()
    server:signal_taken("TERM")
    wait_until_it_stops() -- it claims no more
    shell:write("trace.gate", "")
    assert.equal(0, server:wait())
    assert.is_true(native.now_ms() - began < 22000) -- the deadline is at 25
    assert.equal("1 begin\n1 end\n", shell:trace())
    assert.equal(-1, assert(queue().queries:fetch { "queued" })[1].retry_count)
    local figures = assert(queue():metrics())
    assert.same({ 0, 1 }, { figures.busy, figures.processed })
  end)

  it("F21, R-SIGNAL-2: a stop warns that Redis does not answer", function()
    local server = serve("sleep", 1, 30, "-t", "0.5")
    redis:signal "STOP"
    local code = server:stop()
    redis:signal "CONT"
    assert.equal(0, code)
    assert.matches("WARN [^\n]* warning Redis did not answer before the end", server:log())
    assert.matches("what still ran after %S+ s: 1 id: %S+ 1\n", server:log())
  end)

  for _, kind in ipairs { "sleep", "spin", "hold" } do
    it("F21, R-SIGNAL-2: what still runs at the deadline is handed back: " .. kind, function()
      local server = serve(kind, 1, 30, "-t", "0.5")
      local began = native.now_ms()
      assert.equal(0, server:stop(kind == "hold" and "TERM" or "INT"))
      local took = native.now_ms() - began
      assert(took > 400 and took < 25000, took)
      assert.matches("what still ran after %S+ s: 1 id: %S+ 1\n", server:log())
      assert.equal(-1, assert(queue().queries:fetch { 1 })[1].retry_count)
      assert.same({}, assert(queue().queries:processing_data()))
    end)
  end

  it("R-SIGNAL-6: the dashboard asks a node to be quiet and to stop", function()
    local server = serve("gate", 1, 0, "-c", "1")
    assert(queue():perform_async { { id = "queued" } })
    local name = node().name
    assert.same({ "working", true, false }, { node().state, seriatim.quiet_node(name), seriatim.quiet_node("nobody") })
    command.eventually(function() return node().state == "quiet" end)
    assert.is_true(seriatim.stop_node(name))
    wait_until_it_stops()
    assert.same({ true, true }, { seriatim.stop_node(name), seriatim.quiet_node(name) })
    shell:write("trace.gate", "")
    assert.equal(0, server:wait())
    assert.equal("1 begin\n1 end\n", shell:trace())
    assert.equal(-1, assert(queue().queries:fetch { "queued" })[1].retry_count)
    assert.matches(" quiet requested from the dashboard.* stop requested from the dashboard", server:log())
    assert.equal(2, select(2, server:log():gsub("requested from the dashboard", "")))
    assert.same({ false, {} }, { seriatim.stop_node(name), seriatim.nodes() })
    assert.error_matches(function() seriatim.stop_node("") end, "name must be a text of 1 to 64 bytes")
  end)

  it("what runs at the deadline of a stop by the dashboard is handed back", function()
    local server = serve("sleep", 1, 30, "-t", "0.5")
    assert.is_true(seriatim.stop_node(node().name))
    assert.equal(0, server:wait())
    assert.matches("what still ran", server:log())
    assert.equal(-1, assert(queue().queries:fetch { 1 })[1].retry_count)
  end)

  it("R-SIGNAL-4: no more is claimed after TSTP", function()
    local server = serve("sleep", 0, 0)
    server:signal("TSTP")
    server:wait_for(" quiet ")
    assert(queue():perform_async { { id = "late" } })
    native.sleep(0.7)
    assert.equal("", shell:trace())
    assert.equal(0, server:stop())
  end)

  ---Asks until the log matches behind that place: a thread has 0.1 s to answer, which is not enough on a busy machine.
  local function shows(server, pattern, from)
    command.eventually(function()
      server:signal("TTIN")
      native.sleep(0.5)
      return server:log():find(pattern, from)
    end, 60, function() return server:log() end)
  end

  it("F24, R-SIGNAL-5: TTIN shows every thread, also while the server stops", function()
    local server = serve("spin", 1, 60)
    shows(server, " thread main: [^\n]*server_command%.lua", 1)
    shows(server, " thread host%-%d: [^\n]*app%.lua:%d+: in", 1)
    shows(server, " thread host%-%d: [^\n]*host%.lua:%d+: in", 1)
    server:signal_taken("TERM")
    wait_until_it_stops()
    local before = #server:log()
    shows(server, " thread host%-%d: [^\n]*app%.lua:%d+: in", before)
    shell:write("trace.gate", "")
    assert.equal(0, server:wait())
    assert.equal("1 begin\n1 end\n", shell:trace())
  end)

  it("F24 many TTINs under load do no harm", function()
    local server = serve("sleep", 1, 0.01, "-c", "3")
    for number = 1, counts.count(50, 1000) do
      assert(queue():perform_async { { id = number } })
      server:signal("TTIN")
      command.eventually(function() return select(2, server:log():gsub(" thread main: ", "")) >= number end)
    end
    command.eventually(function()
      local figures = assert(queue():metrics())
      return figures.length + figures.busy == 0
    end)
    assert.equal(0, server:stop())
    assert.equal(0, assert(queue():metrics()).failed)
  end)

  it("a server goes on when nobody reads its log", function()
    local line = shell:line { "-r", "app", "-v", env = { KIND = "sleep", SECONDS = "0" } }
    local script = ("( %s ) | head -n 1 > %s/first & echo $!"):format(line, shell.folder)
    os.execute(("sh -c %s > /dev/null 2>&1 &"):format(command.quote(script)))
    command.eventually(function() return command.read(shell.folder .. "/first"):find(" start node", 1, true) end)
    local pid = command.read(shell.folder .. "/first"):match("pid=(%d+)")
    for id = 1, 5 do
      assert(queue():perform_async { { id = id } })
      command.eventually(function() return shell:count_of(" end") == id end)
    end
    os.execute("kill -TERM " .. pid)
    command.eventually(function() return not command.is_alive(tonumber(pid)) end)
    assert.same({}, assert(seriatim.nodes()))
  end)

  it("F20, R-SIGNAL-3: another server takes over after a second INT", function()
    local first = serve("sleep", 1, 30)
    first:signal_taken("INT")
    assert.equal(1, first:stop("INT"))
    shell:start { "-r", "app", env = { KIND = "sleep", SECONDS = "0" } }
    command.eventually(function() return shell:trace():find("1 end", 1, true) end)
  end)

  -- ---- before the server stands

  ---The command while it loads an application that takes `seconds`.
  local function loading(seconds, ...)
    shell:write("slow.lua", command.APP .. ([[
      seriatim.worker { name = "Slow", perform = function() end }
      note("loading")
      native.sleep(%g)
    ]]):format(seconds))
    local server = shell:start { "-r", "slow", wait = false, ... }
    command.eventually(function() return shell:trace():find("loading", 1, true) end)
    return server
  end

  for _, processes in ipairs { "1", "2" } do
    for _, name in ipairs { "TERM", "INT" } do
      it(("F20 %s ends with 0 while the application is loaded, -p %s"):format(name, processes), function()
        assert.equal(0, loading(60, "-p", processes):stop(name, 20))
      end)
    end

    it("F20 other signals take effect once the server has started, -p " .. processes, function()
      local server = loading(1, "-p", processes)
      for _, name in ipairs { "TTIN", "TSTP", "HUP", "USR1" } do
        server:signal(name)
      end
      for _, said in ipairs { " quiet ", " thread main: ", " HUP is ignored", " USR1 is ignored" } do
        server:wait_for(said)
      end
      assert.equal(0, server:stop())
    end)
  end

  it("R-SIGNAL-4: TSTP while the application is loaded lets the server claim nothing", function()
    local slow = seriatim.worker { name = "Slow" }
    assert(slow:perform_async { { id = 1 } })
    local server = loading(1)
    server:signal("TSTP")
    server:wait_for(" quiet ")
    native.sleep(0.7)
    local metrics = assert(slow:metrics())
    assert.same({ 0, 1, 0 }, { metrics.processed, metrics.length, metrics.busy })
    assert.equal(0, server:stop())
  end)

  ---The command while it loads its own files, which wait until it has the signal.
  local function starting(name, ...)
    shell:write("own/seriatim/cli.lua", ([[
      local folder = %q
      io.open(folder .. "/starting", "w"):close()
      local go
      repeat go = io.open(folder .. "/go") until go
      return dofile(%q)
    ]]):format(shell.folder, command.root .. "seriatim/cli.lua"))
    local path = ("%s/own/?.lua;%s"):format(shell.folder, command.lua_path())
    local server = shell:start { wait = false, env = { LUA_PATH = path }, ... }
    command.eventually(function() return io.open(shell.folder .. "/starting") end)
    server:signal(name)
    shell:write("go", "")
    return server
  end

  for _, name in ipairs { "TERM", "INT" } do
    it(("F20, R-SIGNAL-7: %s while the command loads its own files ends it with 0 before the application is loaded"):format(name), function()
      shell:write("marks.lua", ("io.open(%q, 'w'):close()"):format(shell.folder .. "/loaded"))
      assert.equal(0, starting(name, "-r", "marks"):wait())
      assert.is_nil(io.open(shell.folder .. "/loaded"))
    end)
  end

  it("F20, R-SIGNAL-7: TERM while the command loads its own files ends another verb than server by the signal", function()
    assert.equal(128 + 15, starting("TERM", "stats"):wait())
  end)

  it("F20 TERM twice within a second counts once", function()
    local code
    for _ = 1, 5 do -- on a busy machine the process may hear the second one more than a second after the first
      local server = loading(0)
      server:wait_for(" start node")
      server:signal_taken("TERM")
      code = server:stop()
      if code == 0 then break end
    end
    assert.equal(0, code)
  end)
end)
