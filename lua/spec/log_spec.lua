-- Lines of the log, as text and as JSON.
local log = require "seriatim.log"
local logged = require "support.logged"
local native = require "seriatim.native"

describe("the log", function()
  after_each(function()
    log.format, log.thread = "text", "main"
  end)

  local function line_of(...)
    local arguments, count = { ... }, select("#", ...)
    return logged(log.DEBUG, function()
      log.write((table.unpack or unpack)(arguments, 1, count))
    end)
  end

  it("writes one line an event", function()
    local pattern = "^WARN %d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ pid=%d+ tid=main q=Orders id=7 n=2 elapsed=0%.125 fail boom$"
    assert.matches(pattern, line_of(log.WARN, "fail", "boom", { q = "Orders", id = 7, n = 2, elapsed = 0.125 }))
    assert.matches(" tid=main quiet a | b | c$", line_of(log.INFO, "quiet", "a\nb\r\nc"))
    assert.matches(" tid=main done$", line_of(log.DEBUG, "done"))
  end)

  it("quotes what a word cannot be", function()
    assert.matches(' q="a b" id="x\\"y" dead$', line_of(log.ERROR, "dead", nil, { q = "a b", id = 'x"y' }))
    assert.matches(' id="" dead$', line_of(log.ERROR, "dead", nil, { id = "" }))
    assert.matches(' id="a=b" dead$', line_of(log.ERROR, "dead", nil, { id = "a=b" }))
    assert.matches(' id="a\\u001b%[2J" dead$', line_of(log.ERROR, "dead", nil, { id = "a\27[2J" }))
  end)

  it("writes JSON, the fields behind the message", function()
    log.format, log.thread = "json", "host-3"
    local line = line_of(log.INFO, "start", 'said "x"\n', { q = "Orders", n = 2 })
    assert.matches('^{"ts":"[^"]+","lvl":"INFO","pid":%d+,"tid":"host%-3","event":"start","msg":"said \\"x\\"\\n","q":"Orders","n":2}$', line)
    assert.equal(native.getpid(), native.load(line).pid)
    assert.matches('"event":"done","n":1}$', line_of(log.DEBUG, "done", nil, { n = 1 }))
  end)

  it("shows bytes that are no UTF-8 as question marks", function()
    assert.equal("a?b\195\164?\240\159\152\128??", log.utf8("a\255b\195\164\195\240\159\152\128\237\160"))
    assert.equal("\239\191\189", log.utf8("\239\191\189"))
    assert.matches(" id=%?x dead %?$", line_of(log.ERROR, "dead", "\254", { id = "\254x" }))
  end)

  it("shows an error's first line, cut where it is long, and its place", function()
    assert.equal("one", log.brief("one"))
    assert.equal("one", log.brief("one\r\ntwo"))
    assert.equal("one (file.lua:7)", log.brief("one\ntwo (file.lua:7)"))
    assert.equal(("x"):rep(500) .. "...", log.brief(("x"):rep(501)))
    assert.equal(("x"):rep(499) .. "...", log.brief(("x"):rep(499) .. "\195\164\195\164"))
  end)

  it("leaves out what is below its level", function()
    assert.equal("", logged(log.WARN, function() log.info("start") end))
    assert.is_false(log.is_debug())
  end)

  it("never raises", function()
    local output = log.output
    log.output = function() error("no disk") end
    log.error("crash", setmetatable({}, { __tostring = function() error("no text") end }))
    log.error("crash", "text")
    log.output = output
  end)

  it("describes whatever was raised", function()
    assert.equal("boom", log.describe("boom"))
    assert.equal("told", log.describe { message = "told" })
    assert.equal("nil", log.describe(nil))
    assert.equal("table", log.describe(setmetatable({}, { __tostring = function() error("no") end })))
    assert.equal("table", log.describe(setmetatable({}, { __index = function() error("no") end })))
  end)

  it("tells milliseconds of UTC", function()
    assert.equal("1970-01-01T00:00:01.500Z", log.timestamp(1.5))
    assert.equal("2026-11-20T12:00:00.999Z", log.timestamp(1795176000.999))
  end)
end)
