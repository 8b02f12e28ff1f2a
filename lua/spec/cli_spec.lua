-- The command: usage, exit codes, what -r and -C load, the operators' verbs, a private Redis.
local command = require "support.command"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local unpack = table.unpack or unpack

local APP = command.APP .. [[
local module = ...

seriatim.worker {
  name = "CliWorker",
  shards_count = 2,
  perform = function(payloads_by_id)
    for id in pairs(payloads_by_id) do
      note(id .. " " .. module)
    end
  end,
}

seriatim.lease_time = 3
seriatim.poll_interval = 0.2
seriatim.last_words(function(err)
  io.stdout:write("last words: ", type(err) == "table" and err.message or tostring(err), "\n")
end)
]]

describe("seriatim-lua", function()
  local redis, shell

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, APP, function(started, made)
    redis, shell = started, made
  end)

  local function queue(name)
    return seriatim.worker { name = name or "CliWorker", shards_count = 2 }
  end

  local function push(made, jobs)
    return assert(made:perform_async(jobs))
  end

  -- ---- usage

  local WRONG = {
    { {}, "-r is missing" },
    { { "--bogus" }, "invalid option: --bogus" },
    { { "--theads", "5" }, "invalid option: --theads (did you mean --threads?)" },
    { { "-r", "app", "-x" }, "invalid option: -x" },
    { { "bogus" }, "unknown command bogus; there are server, push" },
    { { "server", "bogus" }, "unexpected bogus" },
    { { "-r" }, "missing argument: -r" },
    { { "-r", "-v" }, "missing argument: -r" },
    { { "-r", "/no/such" }, "-r /no/such: no such file" },
    { { "-r", "no.such.module" }, "-r no.such.module: no such file, no folder with init.lua and no module" },
    { { "-r", "folder" }, "-r folder: the folder holds no init.lua" },
    { { "-r", "notes.txt" }, "must end in .lua" },
    { { "-r", "folder/string.lua" }, "its name string is already that of " },
    { { "-r", "none.lua" }, "no workers" },
    { { "-r", "app", "-q", "other" }, "unknown queue 'other'; there are 'CliWorker'" },
    { { "-r", "app", "-c", "0" }, "threads_per_node must be" },
    { { "-r", "app", "-p", "0" }, "-p must be" },
    { { "-r", "app", "-t", "-1" }, "stop_timeout must be" },
    { { "-c", "many" }, "invalid argument: -c many" },
    { { "-c", "1.5" }, "invalid argument: -c 1.5" },
    { { "-t", "nan" }, "invalid argument: -t nan" },
    { { "--log-format", "xml" }, "invalid argument: --log-format xml" },
    { { "balance", "q", "7" }, "unknown command balance" },
    { { "web", "bogus" }, "unexpected bogus" },
    { { "push", "q" }, "usage: seriatim-lua push QUEUE ID [PAYLOAD]" },
    { { "push", "q", "1", "paid" }, "not valid JSON" },
    { { "push", "q", "1", "--create", "--shards", "0" }, "--shards must be an integer from 1 to 4096, not 0" },
    { { "push", "q", "1", "--create", "--shards", "4097" }, "--shards must be an integer from 1 to 4096, not 4097" },
    { { "push", "CliWorker", "1", "-r", "app", "--create", "--shards", "7" }, "--shards 7: the application's worker has shards_count " },
    { { "explain", "nowhere", "1" }, 'unknown queue "nowhere"' },
    { { "stats", "nowhere" }, 'unknown queue "nowhere"' },
    { { "dead", "shoot", "q" }, "usage: seriatim-lua dead list" },
    { { "import", "lowkiq", "q" }, "import needs Ruby, because the jobs of Lowkiq are in Ruby's own format" },
    { { "-C", "no_such.lua" }, "No such file" },
    { { "-C", "notes.txt" }, "must end in .lua or .json" },
    { { "-C", "unknown.lua" }, "unknown key theads; known are require, threads" },
    { { "-C", "type.json" }, "threads must be an integer, not '5'" },
    { { "-C", "list.json" }, "must be a map of settings" },
    { { "-C", "broken.lua" }, "-C broken.lua: broken.lua:1:" },
    { { "-C", "broken.json" }, "-C broken.json: " },
  }

  local HINT = "\n          see seriatim-lua help\n"

  it("R-COMMAND-1: says what is wrong and exits 2 for wrong usage", function()
    shell:write("notes.txt", "")
    shell:write("folder/string.lua", APP)
    shell:write("none.lua", 'require("seriatim").workers = {}')
    shell:write("unknown.lua", "return { theads = 5 }")
    shell:write("type.json", '{"threads": "5"}')
    shell:write("list.json", "[]")
    shell:write("broken.lua", "return {{")
    shell:write("broken.json", "{")
    for _, row in ipairs(WRONG) do
      local output, code = shell:run(row[1])
      local what = ("%s: %s"):format(table.concat(row[1], " "), output)
      assert(output:find(row[2], 1, true), what)
      assert(not output:find("traceback", 1, true), what)
      assert(code == 2 and output:sub(-#HINT) == HINT, what)
    end
  end)

  local FAULTY = {
    { "shards_count = 0", "3: FaultyWorker.shards_count must be an integer from 1 to 4096, not 0 (number)\n" },
    { "fold = 'join'", "3: FaultyWorker.fold must be one of merge, list, last, first, not 'join' (string)\n" },
    { "shard_count = 2", "3: FaultyWorker: unknown option 'shard_count' (did you mean shards_count?); known are name, " },
    { "} seriatim.lease_tme = 2 seriatim.worker { name = 'A'", "3: there is no setting 'lease_tme' (did you mean lease_time?); there are " },
    { "} error 'no database' seriatim.worker { name = 'A'", "3: no database\n" },
    { "} error('no database\\nat all', 0) seriatim.worker { name = 'A'", "3: no database\n" },
    { "} error { message = 'no database' } seriatim.worker { name = 'A'", "3: no database\n" },
    { "} require 'nothing_of_that_name' seriatim.worker { name = 'A'", "3: module 'nothing_of_that_name' not found\n" },
    { "} undefined_function { name = 'A'", "3: attempt to call " },
    { "} undefined_table.name = tostring { name = 'A'", "3: attempt to index " },
    { "}} (", "3: " },
  }

  it("names the place in the application in one line, without a traceback or a hint at the options", function()
    for _, row in ipairs(FAULTY) do
      local source = "local seriatim = require 'seriatim'\n\nseriatim.worker { name = 'FaultyWorker', %s }\n"
      local path = shell:write("faulty.lua", source:format(row[1]))
      local output, code = shell:run { "-r", path }
      local place = output:match("^seriatim: ([^\n]-/faulty%.lua):")
      assert(place and code == 2, output)
      local expected = ("seriatim: %s:%s"):format(place, row[2])
      assert(output:sub(1, #expected) == expected and not output:find("\n.") and output:sub(-1) == "\n", output)
    end
    local output, code = shell:run { "-v", "-r", "faulty.lua" }
    assert(output:find("faulty.lua:3: ", 1, true) and output:find("\nstack traceback:", 1, true) and code == 2, output)
  end)

  it("says in one line that a worker has no perform", function()
    local output, code = shell:run { "-r", shell:write("bare.lua", "require('seriatim').worker { name = 'BareWorker' }\n") }
    assert(output:find("^seriatim: workers: BareWorker has no perform; write `perform = [^\n]*\n$") and code == 2, output)
  end)

  it("names the file, the key, the rule and the value of a setting of a wrong type", function()
    local config_file = require "seriatim.cli.config_file"
    local path = shell.folder .. "/wrong.lua"
    local wrong = {
      require = { { "5", "{ a = 1 }", "true" }, "a text" },
      threads = { { '"many"', "1.5", "true", "{ a = 1 }", "{ 1 }" }, "an integer" },
      processes = { { '"2"', "2.5" }, "an integer" },
      queues = {
        { '"OrderWorker"', "5", '{ "A", 5 }', "{ A = 1 }", '{ "A", nil, "B" }', '{ [0] = "A", "B", nil, "C" }', '{ { "A" } }' },
        "a list of texts",
      },
      timeout = { { '"soon"', '"25"', "0/0", "1/0", "{ a = 1 }" }, "a number of seconds" },
      environment = { { "5", "{ a = 1 }" }, "a text" },
      verbose = { { '"yes"', "1" }, "true or false" },
      log_format = { { '"xml"', "5", '{ "json" }' }, "text or json" },
    }
    for key, row in pairs(wrong) do
      for _, value in ipairs(row[1]) do
        for _, form in ipairs { "return { %s = %s }", "return { test = { %s = %s } }" } do
          shell:write("wrong.lua", form:format(key, value))
          local read, raised = pcall(config_file.read, path, "test")
          local said = ("%s: %s must be %s, not "):format(path, key, row[2])
          local refused = not read and raised.message:sub(1, #said) == said and #raised.message > #said
          assert(refused, ("%s = %s: %s"):format(key, value, tostring(raised)))
        end
      end
    end
    shell:write("wrong.lua", 'return { queues = { "A", "b c" }, timeout = 1.5, staging = { threads = 3 } }')
    assert.same({ queues = { "A", "b c" }, timeout = 1.5, threads = 3 }, config_file.read(path, "staging"))
  end)

  it("R-COMMAND-2: prints help and version", function()
    local output, code = shell:run("-h")
    assert.matches("Usage: seriatim%-lua VERB.*%-r PATH.*%-h, %-%-help", output)
    assert.equal(0, code)
    assert.same({ "seriatim " .. native.version .. "\n", 0 }, { shell:run("-vV") })
  end)

  it("R-COMMAND-4: exits 3 when no Redis answers", function()
    local nowhere = "unix://" .. shell.folder .. "/nobody"
    local output, code = shell:run { "push", "q", "1", redis = nowhere }
    local told = "seriatim: no Redis: cannot connect to unix://[^\n]-; start Redis there, or correct REDIS_URL\n"
    assert.matches("^" .. told, output)
    assert.equal(3, code)
    output, code = shell:run { "-r", "app", redis = nowhere }
    assert.matches("last words:.*" .. told, output)
    assert.equal(3, code)
  end)

  it("exits 2 on a wrong URL of Redis, and names what holds it", function()
    for _, words in ipairs { { "push", "q", "1" }, { "-r", "app" }, { "web", "--port", "0" } } do
      words.redis = "localhost:6379"
      local output, code = shell:run(words)
      assert.matches("REDIS_URL must be a URL: the scheme must be .*, and localhost:6379 has none\n", output)
      assert.equal(2, code)
    end
    local output, code = shell:run { "-r", shell:write("wrong.lua", "require('seriatim').redis = 'localhost:6379'\n") }
    assert.matches("^seriatim: [^\n]-wrong.lua:1: redis must be a URL, [^\n]* and localhost:6379 has none\n$", output)
    assert.equal(2, code)
  end)

  it("F32 ends with 1 and last words when on_server_init raises", function()
    shell:write("crash.lua", APP .. "seriatim.on_server_init(function() error('no database', 0) end)")
    local output, code = shell:run("-r", "crash")
    assert.matches("last words: no database.*FATAL.*exit no database.*stack traceback", output)
    assert.equal(1, code)
  end)

  it("R-COMMAND-3: tells a server that waited in vain for ids that move from one without Redis", function()
    for text, code in pairs { ["timed out: the id"] = 1, ["no answer"] = 3 } do
      local raise = ("seriatim.on_server_init(function() error(require('seriatim.errors').new('TIMEOUT', %q), 0) end)\n"):format(text)
      shell:write("late.lua", APP .. raise)
      local output, ended = shell:run("-r", "late")
      assert.matches("last words: [^\n]*" .. text, output)
      assert.equal(code, ended, output)
      assert.equal(code == 3, output:find("seriatim: no Redis: no answer", 1, true) ~= nil, output)
    end
  end)

  it("F32 ends with 1 and the crash's own text when last_words raises or yields", function()
    local crash = "seriatim.on_server_init(function() error('no database', 0) end)\n"
    for _, hook in ipairs { "error()", "error({})", "coroutine.yield()", "local function f() return f() .. 1 end f()" } do
      shell:write("crash.lua", APP .. crash .. ("seriatim.last_words(function() %s end)"):format(hook))
      local output, code = shell:run("-r", "crash")
      assert.matches("last_words raised [^\n]*\n.*FATAL[^\n]* exit no database", output)
      assert.equal(1, code)
    end
  end)

  it("F32 ends with 1 when a thread's state cannot be made", function()
    shell:write("crash.lua", APP .. "seriatim.on_thread_init(function() error('no thread', 0) end)")
    local output, code = shell:run("-r", "crash")
    assert.matches("last words: thread host%-%d: no thread", output)
    assert.equal(1, code)
  end)

  local FAILING = {
    { "error('broken application')", "failing.lua:1: broken application", 2 },
    { "require 'nothing_of_that_name'", "module 'nothing_of_that_name' not found", 2 },
    { "return (", "failing.lua:1:", 2 },
    { "error(require('seriatim.errors').new('IO', 'no such host'), 0)", "no Redis: no such host", 3 },
    { "error(require('seriatim.errors').new('TIMEOUT', 'no answer'), 0)", "no Redis: no answer", 3 },
    { "error(require('seriatim.errors').new('TIMEOUT', 'timed out: the id'), 0)", "seriatim: timed out: the id", 1 }, -- Redis answers
    { "os.exit(7)", "", 7 },
    { "require('seriatim').lease_time = 'x'", "failing.lua:1: lease_time must be", 2 },
  }

  it("R-COMMAND-3: ends with the error of an application that fails while it loads", function()
    for _, row in ipairs(FAILING) do
      shell:write("failing.lua", row[1])
      local output, code = shell:run("-r", "failing")
      assert(output:find(row[2], 1, true), output)
      assert.equal(row[3], code, output)
    end
  end)

  -- ---- what -r loads

  local LOADS = {
    { "app", "app.lua", "app" },
    { "./app.lua", "app.lua", "app" },
    { "deep/jobs.lua", "deep/jobs.lua", "jobs" },
    { "shop", "shop/init.lua", "shop" },
    { "shop/workers.lua", "shop/workers.lua", "shop.workers" },
    { "shop.workers", "shop/workers.lua", "shop.workers" },
    { "my-app.lua", "my-app.lua", "my-app" },
  }

  it("loads a module under its own name, in every state", function()
    for place, row in ipairs(LOADS) do
      shell:write("shop/init.lua", "")
      shell:write(row[2], APP)
      local server = shell:start("-r", row[1], "-c", "1")
      push(queue(), { { id = "a" .. place } })
      command.eventually(function()
        return shell:trace():find(("a%d %s\n"):format(place, row[3]), 1, true)
      end, 60, function() return server:log() .. shell:trace() end)
      assert.equal(0, server:stop())
      os.remove(shell.folder .. "/shop/init.lua")
    end
  end)

  it("takes an absolute path", function()
    local server = shell:start("-r", shell.folder .. "/app.lua", "-c", "1")
    push(queue(), { { id = "a" } })
    command.eventually(function() return shell:trace() == "a app\n" end)
    assert.equal(0, server:stop())
  end)

  -- ---- what -C says

  local CONFIGS = {
    ["s.lua"] = 'return { require = "app", threads = 2, verbose = true, staging = { threads = 3, log_format = "json" } }',
    ["s.json"] = '{"require": "app", "threads": 2, "verbose": true, "staging": {"threads": 3, "log_format": "json"}}',
  }

  it("takes settings from a file by environment; the command line wins", function()
    for name, text in pairs(CONFIGS) do
      shell:write(name, text)
      local server = shell:start { "-C", name, "-e", "staging", wait = false }
      server:wait_for('"event":"start","msg":"node [^"]* with 3 threads runs CliWorker')
      push(queue(), { { id = name } })
      server:wait_for('"lvl":"DEBUG"[^\n]*"event":"done"[^\n]*"id":"' .. name)
      assert.equal(0, server:stop())
      server = shell:start("-C", name, "-c", "4")
      server:wait_for("with 4 threads")
      assert.equal(0, server:stop())
    end
  end)

  it("shows the environment to the application in every state", function()
    shell:write("env.lua", APP .. "seriatim.on_server_init(function() note('process ' .. os.getenv('APP_ENV')) end)\n"
      .. "seriatim.on_thread_init(function() note('thread ' .. os.getenv('APP_ENV')) end)")
    local server = shell:start("-r", "env", "-e", "staging", "-c", "2")
    command.eventually(function() return shell:count_of("thread staging\n") == 2 end)
    assert.equal(1, shell:count_of("process staging\n"))
    assert.equal(0, server:stop())
  end)

  it("runs only the queues of -q", function()
    shell:write("two.lua", APP .. "seriatim.worker { name = 'Other', perform = print }")
    local server = shell:start("-r", "two", "-q", "CliWorker", "-c", "1")
    assert.matches("runs CliWorker on", server:log())
    assert.equal(0, server:stop())
  end)

  it("logs each job with -v and not without", function()
    local loud = shell:start("-r", "app", "-v")
    push(queue(), { { id = "a" } })
    loud:wait_for("DEBUG [^\n]* tid=host%-%d [^\n]*q=CliWorker id=a n=1 [^\n]*start")
    loud:wait_for("DEBUG [^\n]* q=CliWorker id=a n=1 elapsed=%d+%.%d+ done")
    assert.equal(0, loud:stop())
    local quiet = shell:start("-r", "app")
    push(queue(), { { id = "b" } })
    command.eventually(function() return shell:trace():find("b app", 1, true) end)
    assert.equal(0, quiet:stop())
    assert.is_nil(quiet:log():find(" id=", 1, true))
  end)

  -- ---- the operators' verbs

  it("writes the lines that jobs print at once, although standard output is a file", function()
    shell:write("printing.lua", APP .. [[
      seriatim.worker { name = "Printing", perform = function() print("printed by a job") end }
    ]])
    local server = shell:start("-r", "printing", "-q", "Printing")
    server:wait_for("connected to Redis")
    push(queue("Printing"), { { id = "a" } })
    server:wait_for("printed by a job\n", 10)
    assert.equal(0, server:stop())
  end)

  it("R-QUEUE-1: queues delete removes a queue that holds something only when its name is repeated", function()
    local gone = queue("Gone")
    assert(gone:perform_async { { id = 1 } })
    local output, code = shell:run("queues", "delete", "Gone")
    assert(output:find("holds 1 ids", 1, true) and code == 2, output)
    assert.same({ 'deleted the queue "Gone"\n', 0 }, { shell:run("queues", "delete", "Gone", "--force", "Gone") })
    assert.equal(0, gone.queue:shards_count())
    assert(gone:perform_async { { id = 1 } })
    assert.equal(1, gone.actions:delete_queue { force = true })
  end)

  it("runs push, stats, explain, pause, resume and check", function()
    assert.same({ "added 1, folded 0, refused 0\n", 0 },
      { shell:run("push", "Shell", "1", '{"b":1,"a":2}', "--delay", "60", "--score", "7", "--create") })
    local output, code = shell:run("push", "Shell", "1", "-v")
    assert(output:find("folded 1", 1, true) and code == 0, output)
    local record = assert(queue("Shell").queries:fetch { 1 })[1]
    assert.same({ { a = 2, b = 1 }, 7 }, record.payloads[1])
    assert.equal("", record.payloads[2][1])
    assert.equal(5, queue("Shell").queue:shards_count())
    output = shell:run("stats")
    assert.matches("^queue +length[^\n]*\nShell +1 +1 +0", output)
    local figures = native.load((shell:run("stats", "--json", "Shell")))
    assert.same({}, figures.nodes)
    assert.equal("Shell", figures.queues[1].name)
    assert.equal(1, figures.queues[1].length)
    assert.matches("%S", (shell:run("explain", "Shell", "1")))
    local explained = native.load((shell:run("explain", "Shell", "1", "--json"))).job
    assert.equal("1", explained.id)
    assert.equal(2, explained.payloads_count)
    assert.is_nil(explained.payloads)
    assert.same({ "paused 5 shards\n", 0 }, { shell:run("pause", "Shell") })
    output = shell:run("stats")
    assert.matches("^queue +length +fresh +retries +lag +busy +paused +parked [^\n]*\nShell +1 +1 +0 +0[%.0]* +0 +5 +0 ", output)
    assert.same({ "resumed 5 shards\n", 0 }, { shell:run("resume", "Shell") })
    assert.same({ "parked 1\n", 0 }, { shell:run("pause", "Shell", "1") })
    assert.same({ "unparked 1\n", 0 }, { shell:run("resume", "Shell", "1") })
    output, code = shell:run("check")
    assert.matches("Shell: %d+ records, 0 findings", output)
    assert.equal(0, code)
  end)

  it("takes names and ids that are no UTF-8, and negative numbers", function()
    local name = "Q\255%{}"
    assert.equal(0, select(2, shell:run("push", name, "id\254", "1", "--create")))
    assert.same({ "added 1, folded 0, refused 0\n", 0 }, { shell:run("push", "-5", "-7", "-1.5", "--create") })
    local output = shell:run("stats")
    assert.matches("\nQ%?%%{} +1 ", output)
    assert.matches("\n%-5 +1 ", output)
    assert.equal("id\254", assert(queue(name).queries:range_by_id("-", "+"))[1].id)
    assert.same({ "parked 1\n", 0 }, { shell:run("pause", name, "id\254") })
  end)

  it("R-RESHARD-5: says at INT that the servers go on with the ids, and exits with 0", function()
    local moved = seriatim.worker { name = "Moved", shards_count = 2 }
    push(moved, { { id = 1 } })
    local reshard = shell:start { "reshard", "Moved", "5", wait = false }
    reshard:wait_for("no living server owns one of them")
    assert.equal(0, reshard:stop("INT"))
    assert.matches('\nthe servers go on with the ids of the queue "Moved"\n$', reshard:log())
    assert.equal(5, assert(moved:metrics()).resharding.to)
  end)

  it("pushes with the settings of the application's worker", function()
    assert.equal(0, select(2, shell:run("push", "CliWorker", "1", "-r", "app")))
    assert.equal(2, queue().queue:shards_count())
  end)

  it("pop with an application shows what is not JSON in a queue of another one", function()
    local other = seriatim.worker { name = "Other", codec = "raw", shards_count = 1 }
    push(other, { { id = "text", payload = "{not" } })
    local output, code = shell:run("pop", "Other", "-r", "app")
    assert(output:find(': 1 payload\n"{not"\n', 1, true) and code == 0, output)
    local figures = assert(other:metrics())
    assert.same({ 1, 0 }, { figures.length, figures.morgue_length })
  end)

  it("pushes in the codec of a worker that the application names and has not loaded, and makes its queue", function()
    shell:write("named.lua", [[
      return require("seriatim").worker { name = "Named", codec = { string.reverse, string.reverse }, shards_count = 3 }
    ]])
    shell:write("names.lua", [[require("seriatim").workers = { "named" }]])
    assert.same({ "added 1, folded 0, refused 0\n", 0 }, { shell:run("push", "Named", "a", '"abc"', "-r", "names") })
    local named = seriatim.worker { name = "Named", codec = "raw", shards_count = 3 }
    assert.equal(3, named.queue:shards_count())
    assert.equal("cba", assert(named.queries:fetch { "a" })[1].payloads[1][1])
    shell:write("unknown.lua", [[require("seriatim").workers = { "no.such" }]])
    local output, code = shell:run("stats", "-r", "unknown")
    assert(output:find("seriatim: workers: there is no no.such: ", 1, true) and code == 2, output)
  end)

  it("runs dead list, retry and delete", function()
    shell:write("dying.lua", APP .. [[
      seriatim.worker { name = "Morgue", max_retry_count = 0, perform = function() error("boom\nand more", 0) end }
    ]])
    push(queue("Morgue"), { { id = "a" }, { id = "b" }, { id = "c" } })
    local server = shell:start("-r", "dying", "-q", "Morgue")
    command.eventually(function() return assert(queue("Morgue"):metrics()).morgue_length == 3 end)
    assert.equal(0, server:stop())
    local output = shell:run("dead", "list", "Morgue")
    assert.matches("^id +died[^\n]*\n[abc] [^\n]* boom\n[abc] ", output)
    assert.equal(3, select(2, shell:run("dead", "list", "Morgue", "--limit", "2"):gsub("\n", "")))
    local record = native.load((shell:run("dead", "list", "Morgue", "c", "--json")))[1]
    local error_of_c = record.error:gsub("[^\n]*dying%.lua:%d+: ", "dying.lua: ")
    assert.equal("c", record.id)
    assert.matches("^boom\nand more\n%[C%]: in function 'error'\ndying%.lua: in function [^\n]*$", error_of_c)
    for _, case in ipairs {
      { "cba", "c", "b", "a" }, { "c", "c", "b", "--limit", "1" }, { "c", "c", "b", "--error", "boom", "--limit", "1" },
    } do
      local words, shown = { "dead", "list", "Morgue", "--json", unpack(case, 2) }, ""
      for _, row in ipairs(native.load((shell:run(words)))) do
        shown = shown .. row.id
      end
      assert.equal(case[1], shown)
    end
    local first = shell:run("dead", "list", "Morgue", "--limit", "2")
    assert.equal(first, (shell:run("dead", "list", "Morgue", "--limit", "2", "--error", "boom")))
    for _, chosen in ipairs { {}, { "--error", "boom" }, { "a" }, { "a", "--error", "boom" } } do
      for _, limit in ipairs { "0", "-1", "100001" } do
        local words = { "dead", "list", "Morgue", "--limit", limit, unpack(chosen) }
        local told, ended = shell:run(words)
        assert(told:find("limit must be an integer from 1 to 100000, not " .. limit .. " ", 1, true) and ended == 2, told)
      end
    end
    assert.same({ "queued up 1; 1 of 2 ids is not dead\n", 1 }, { shell:run("dead", "retry", "Morgue", "a", "x") })
    local refused, code = shell:run("dead", "delete", "Morgue")
    assert(refused:find("name the ids, or --all", 1, true) and code == 2, refused)
    assert.same({ "deleted 2\n", 0 }, { shell:run("dead", "delete", "Morgue", "--all") })
  end)

  it("leaves the other dead ids alone where dead retry or dead delete of named ids fails", function()
    local morgue, ids = queue "Morgue", {}
    for id = 1, 20 do
      ids[native.shard_of(tostring(id), 2)] = tostring(id)
    end
    push(morgue, { { id = ids[0], retry_count = 1 }, { id = ids[1], retry_count = 1 } })
    assert.equal(2, morgue.actions:kill_all_failed_jobs())
    redis:call("SET", "seriatim:{Morgue/1}:dead", "of a wrong type")
    for _, action in ipairs { "retry", "delete" } do
      local output, code = shell:run("dead", action, "Morgue", ids[1])
      assert.equal("1", redis:call("HEXISTS", "seriatim:{Morgue/0}:dead", ids[0]))
      assert(output:find("WRONGTYPE", 1, true) and code == 1, output)
    end
  end)

  local function failed(from, to)
    local jobs = {}
    for id = from, to do
      jobs[#jobs + 1] = { id = id, retry_count = 1 }
    end
    return jobs
  end

  -- The first line is drawn at once; how many follow is a matter of time.
  local function shows_progress(what, terminal)
    assert.matches("^\r" .. what .. ": %d+ of 200 %w+ %(%d+%%%).*\r +\r$", terminal)
  end

  it("says on a terminal how far check, dead retry --all and dead delete --all are", function()
    local long = seriatim.worker { name = "Long", shards_count = 1 }
    push(long, failed(1, 200))
    local terminal, output, code = shell:run_on_terminal("check", "Long")
    shows_progress("check Long", terminal)
    assert.matches("^Long: %d+ records, 0 findings\n$", output)
    assert.equal(0, code)
    assert.equal(200, long.actions:kill_all_failed_jobs())
    terminal, output, code = shell:run_on_terminal("dead", "retry", "Long", "--all")
    shows_progress("dead retry Long", terminal)
    assert.same({ "queued up 200\n", 0 }, { output, code })
    push(long, failed(201, 400))
    assert.equal(200, long.actions:kill_all_failed_jobs())
    terminal, output, code = shell:run_on_terminal("check", "--json")
    assert.matches('"findings":%[%]', output)
    assert.same({ "", 0 }, { terminal, code })
    terminal, output, code = shell:run_on_terminal("dead", "delete", "Long", "--all")
    shows_progress("dead delete Long", terminal)
    assert.same({ "deleted 200\n", 0 }, { output, code })
    terminal = shell:run_on_terminal("check")
    assert.matches("^\rcheck: %d+ keys.*\r +\r$", terminal)
  end)

  -- ---- closed standard files

  it("sends Redis nothing of what it cannot write to closed output, and says so", function()
    local morgue = queue "Morgue"
    push(morgue, { { id = "DEL canary", retry_count = 1 } })
    assert.equal(1, morgue.actions:kill_all_failed_jobs())
    redis:call("SET", "canary", "1")
    redis:call("CONFIG", "RESETSTAT")
    local said = { "seriatim: the output cannot be written: Bad file descriptor\n", 1 }
    for _, words in ipairs { { "dead", "list", "Morgue" }, { "push", "Morgue", "SET canary 2" }, { "stats" }, { "version" } } do
      words.closed = ">&-"
      assert.same(said, { shell:run(words) })
      words.closed = ">&- 2>&-"
      assert.same({ "", 1 }, { shell:run(words) })
    end
    for _, closed in ipairs { "2>&-", "<&- 2>&-" } do
      assert.same({ "", 2 }, { shell:run { "stats", "Nowhere", closed = closed } })
    end
    assert.equal("1", redis:call("GET", "canary"))
    assert.is_nil(redis:call("INFO", "errorstats"):find("errorstat_ERR", 1, true)) -- of what is no command
  end)

  it("hands back what it popped when its output is closed", function()
    push(queue "Popped", { { id = "a" } })
    for _, option in ipairs { "--json", "--ack" } do
      local said = { "seriatim: what was popped cannot be printed; it was handed back\n", 1 }
      assert.same(said, { shell:run { "pop", "Popped", option, closed = ">&-" } })
    end
    local figures = assert(queue("Popped"):metrics())
    assert.same({ 1, 0, 0 }, { figures.length, figures.busy, figures.retries })
  end)

  it("hands back what it popped when the reader of its output is gone, and other verbs end with 1", function()
    push(queue "Popped", { { id = "a" } })
    os.execute("mkfifo " .. command.quote(shell.folder .. "/unread"))
    local closed = "3<>unread >unread 3>&-" -- opened for both, so that opening it to write does not wait for a reader
    for _, option in ipairs { "--json", "--ack" } do
      local said = { "seriatim: what was popped cannot be printed; it was handed back\n", 1 }
      assert.same(said, { shell:run { "pop", "Popped", option, closed = closed } })
    end
    local figures = assert(queue("Popped"):metrics())
    assert.same({ 1, 0, 0 }, { figures.length, figures.busy, figures.retries })
    assert.same({ "", 1 }, { shell:run { "stats", closed = closed } })
  end)

  -- ---- a private Redis

  it("R-PRIVATE-1: starts a private Redis where no other is named", function()
    local data = { SERIATIM_DATA = shell.folder .. "/data" }
    local output, code = shell:run { "push", "Q", "1", "--create", redis = false, env = data }
    assert(output:find("the private Redis in " .. shell.folder .. "/data", 1, true) and code == 0, output)
    assert(output:find("added 1", 1, true), output)
    assert(shell:run({ "push", "Q", "1", redis = false, env = data }):find("folded 1", 1, true))
  end)

  it("announces a private Redis on standard error, not where the server logs", function()
    local data = { SERIATIM_DATA = shell.folder .. "/data" }
    local output = shell:run { "-r", "app", "-p", "0", redis = false, env = data, errors = false }
    assert.equal("", output)
  end)

  it("R-COMMAND-5: refuses a private Redis in production", function()
    local data = { SERIATIM_DATA = shell.folder .. "/data" }
    local output, code = shell:run { "push", "Q", "1", "-e", "production", redis = false, env = data }
    assert(output:find("seriatim: no Redis: set REDIS_URL", 1, true) and code == 3, output)
    data.RACK_ENV = "production"
    output, code = shell:run { "-r", "app", redis = false, env = data }
    assert(output:find("seriatim: no Redis: set REDIS_URL", 1, true) and code == 3, output)
  end)

  it("R-PRIVATE-2: shares a private Redis between a server, its threads and a push; it ends with the last", function()
    local data = { SERIATIM_DATA = shell.folder .. "/data" }
    local server = shell:start { "-r", "app", redis = false, env = data }
    assert.equal(0, select(2, shell:run { "push", "CliWorker", "1", redis = false, env = data }))
    command.eventually(function() return shell:trace():find("1 app", 1, true) end)
    assert.equal(0, server:stop())
    command.eventually(function()
      return command.output_of("pgrep -f " .. command.quote(shell.folder .. "/[d]ata") .. " || true") == ""
    end)
  end)
end)
