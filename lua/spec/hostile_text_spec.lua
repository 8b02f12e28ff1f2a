-- Ids, names of queues and errors come from elsewhere: whatever they hold, a terminal and a log show it as text of one line.
local command = require "support.command"
local log = require "seriatim.log"
local logged = require "support.logged"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local ID = "a\nb\27[31m\194\1551m\226\128\174\7\127\t\r"
local SHOWN = [[\u001b[31m\u009b1m\u202e\u0007\u007f]]
local QUEUE = "Q" .. ID

local APP = command.APP .. ([[
seriatim.worker { name = %q, max_retry_count = 0, perform = function() error(%q, 0) end }
]]):format(QUEUE:gsub("\r", ""), "\27]0;pwn\7" .. ID:gsub("\r", ""))

---The first control character, or one that hides or turns text.
local function control(text)
  return text:match("[%z\1-\9\11-\31\127]") or text:match("\194[\128-\159]") or text:match("\226\128[\139-\143\168-\174]")
end

describe("hostile text", function()
  local shell
  QUEUE = QUEUE:gsub("\r", "")

  command.use({ setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }, APP, function(_, made)
    shell = made
  end)

  local function run(code, ...)
    local output, status = shell:run(...)
    assert.is_nil(control(output), output)
    assert.equal(code, status, output)
    return output
  end

  local function count(text)
    return select(2, text:gsub("\n", ""))
  end

  local function bury()
    local queue = seriatim.worker { name = QUEUE, shards_count = 5 }
    assert(queue:perform_async { { id = ID, payload = ID } })
    local server = shell:start("-r", "app")
    command.eventually(function() return assert(queue:metrics()).morgue_length == 1 end, 60, function() return server:log() end)
    assert.equal(0, server:stop())
    assert.is_nil(control(server:log()), server:log())
  end

  it("moves no cursor and ends no row, in any verb; JSON stays the same", function()
    bury()
    local listed = run(0, "dead", "list", QUEUE)
    assert.equal(2, count(listed), listed)
    assert(listed:find(SHOWN, 1, true) and listed:find([[\u001b]0;pwn\u0007a]], 1, true), listed)
    local record = native.load(run(0, "dead", "list", QUEUE, "--json"))[1]
    assert.equal(ID, record.id)
    assert.equal("added 1, folded 0, refused 0\n", run(0, "push", QUEUE, ID .. "2"))
    assert.equal(2, count(run(0, "stats")))
    assert.equal(QUEUE, native.load(run(0, "stats", "--json")).queues[1].name)
    assert.equal(1, count(run(0, "explain", QUEUE, ID .. "2")))
    assert.equal(ID .. "2", native.load(run(0, "explain", QUEUE, ID .. "2", "--json")).job.id)
    assert.equal("paused 5 shards\n", run(0, "pause", QUEUE))
    assert.equal("parked 1\n", run(0, "pause", QUEUE, ID .. "2"))
    assert.matches("^the id \"[^\n]*\" is not parked\n$", run(1, "resume", QUEUE, ID))
    assert.matches("^Qa\\u000ab[^\n]*: %d+ records, 0 findings\n$", run(0, "check"))
    assert.equal("queued up 1\n", run(0, "dead", "retry", QUEUE, ID))
    assert.equal("deleted 0\n", run(0, "dead", "delete", QUEUE, "--all"))
  end)

  it("of many failures in a second is counted alone", function()
    shell:write("crowded.lua", command.APP .. [[
      local function perform() error(("x"):rep(3000) .. "\nsecond line", 0) end
      seriatim.worker { name = "Crowded", max_retry_count = 0, batch_size = 60, perform = perform }
    ]])
    local queue, list = seriatim.worker { name = "Crowded", shards_count = 5 }, {}
    for id = 1, 300 do
      list[id] = { id = id }
    end
    assert(queue:perform_async(list))
    local server = shell:start("-r", "crowded")
    local told, counted
    command.eventually(function()
      told, counted = 0, 0
      for line in server:log():gmatch("[^\n]+") do
        told = told + (line:find("ERROR .*q=Crowded .*dead x") and #line < 800 and 1 or 0)
        counted = counted + (line:match(" n=(%d+) fail %d+ more failures in queue Crowded are not") or 0)
      end
      return told + counted >= 300
    end, 60, function() return server:log() end)
    assert(told >= 10 and told < 300, told)
    assert.equal(0, server:stop())
    assert.equal(300, told + counted)
    assert.is_nil(server:log():find("fail x", 1, true))
    assert.is_nil(server:log():find("second line", 1, true))
  end)

  it("is shown in what is refused", function()
    assert.matches("unknown queue", run(2, "stats", ID .. "none"))
    assert(run(2, "x\27[31m"):find([[unknown command x\u001b[31m]], 1, true))
    assert.matches("no such file", run(2, "-r", "x\27[31m"))
  end)

  it("is one line of a log", function()
    for _, format in ipairs { "text", "json" } do
      log.format = format
      local line = logged(log.DEBUG, function() log.warn("fail", "\27]0;pwn\7" .. ID, { q = QUEUE, id = ID }) end)
      log.format = "text"
      assert.is_nil(control(line), line)
      assert.equal(format == "json" and "\27]0;pwn\7" .. ID or nil, format == "json" and native.load(line).msg or nil)
    end
  end)
end)
