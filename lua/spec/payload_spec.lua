-- Payloads, from canonical JSON to codecs of an application's own.

local native = require "seriatim.native"
local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local raises = suite.raises
local array, null = seriatim.array, seriatim.null

describe("canonical JSON", function()
  local WRITTEN = {
    { null, "null" }, { true, "true" }, { "", '""' }, { 1, "1" }, { 1.0, "1" }, { 1.5, "1.5" }, { 1e21, "1e+21" }, { -0.0, "0" },
    { { b = 1, a = { null, false } }, '{"a":[null,false],"b":1}' },
    { { 1, { 2 } }, "[1,[2]]" }, { {}, "{}" }, { array {}, "[]" }, { array { {} }, "[{}]" },
    { "\195\169\0\n", '"\195\169\\u0000\\n"' },
  }

  it("is written", function()
    for _, case in ipairs(WRITTEN) do
      assert.equal(case[2], native.dump(case[1], "p"))
    end
  end)

  local cycle = {}
  cycle[1] = cycle
  local REFUSED = {
    { 0 / 0, "^p: " }, { math.huge, "^p: " }, { { print }, "^p%[1%]: function cannot be written as JSON" },
    { { [1.5] = 2 }, "^p" }, { { [true] = 2 }, "^p" }, { { 1, nil, 3, [9] = 1 }, "^p" }, { { 1, a = 2 }, "^p" },
    { "\237\160\128", "^p: " }, { { a = { b = print } }, "^p.a.b: function cannot" }, { cycle, "contains itself" },
    { setmetatable({ a = 1 }, seriatim.array_mt), "^p" },
  }

  it("refuses what has none, naming where", function()
    for _, case in ipairs(REFUSED) do
      raises(case[2], function() native.dump(case[1], "p") end)
    end
    raises("^array must be a list, not a table with the key 'a'$", function() array { a = 1 } end)
  end)

  it("reads back what it wrote", function()
    local value = { a = { 1, -2.5, null, true, "\195\169" }, b = { c = array {} }, [""] = 2 ^ 53 - 1 }
    local read = native.load(native.dump(value, "p"))
    assert.same(value, read)
    assert.equal("[]", native.dump(read.b.c, "p"))
    assert.equal(null, read.a[3])
  end)

  it("keeps integers of 64 bits", function()
    for _, text in ipairs { "9223372036854775807", "-9223372036854775808", "9007199254740993" } do
      local value = native.load(text)
      if suite.has_integers then
        assert.equal("integer", math.type(value))
      elseif suite.has_int64 then
        assert.equal("cdata", type(value))
      else
        assert.equal(text, value)
        value = nil
      end
      if value then
        assert.equal(text, native.dump(value, "p"))
      end
    end
    assert.equal("number", type(native.load("18446744073709551615")))
  end)

  it("says what cannot be read", function()
    for _, text in ipairs { '{"a":}', "[1", "", "1 2", "\255", '{"a":1,}', "NaN" } do
      local value, kind, message = native.load(text)
      assert.same({ nil, "UNDECODABLE" }, { value, kind })
      assert.matches("at byte", message)
    end
  end)
end)

describe("a payload", function()
  local function payload_of(recorder, payload)
    assert(recorder:perform_async { { id = 1, payload = payload } })
    jobs.serve(recorder)
    return jobs.runs(recorder)[1].payloads["1"][1]
  end

  it("folds whatever the order of its keys", function()
    local recorder = jobs.worker()
    recorder:perform_async { { id = 1, payload = { a = 1, b = 2 } }, { id = 1, payload = { b = 2, a = 1 } } }
    jobs.serve(recorder)
    assert.same({ { a = 1, b = 2 } }, jobs.runs(recorder)[1].payloads["1"])
  end)

  it("may be false or null", function()
    assert.equal(false, payload_of(jobs.worker("False"), false))
    assert.equal(null, payload_of(jobs.worker("Null"), null))
  end)

  it("may be raw bytes", function()
    assert.equal("\255\0", payload_of(jobs.worker("Raw", nil, { codec = "raw" }), "\255\0"))
    local raw = jobs.worker("Raw2", nil, { codec = "raw" })
    raises("^jobs%[1%].payload: must be a string, not a table$", function() raw:perform_async { { id = 1, payload = {} } } end)
    raw:perform_async { { id = 1 } }
    assert.equal("", raw.queries:fetch({ 1 })[1].payloads[1][1])
  end)

  local function dump(payload) return ("%s;%s"):format(payload.a, payload.b) end
  local function load(data)
    local a, b = data:match("^(.-);(.*)$")
    return { a = a, b = b }
  end

  it("may have a codec of the worker's own", function()
    assert.same({ a = "x", b = "y" }, payload_of(jobs.worker("Own", nil, { codec = { dump, load } }), { a = "x", b = "y" }))
    local broken = jobs.worker("Broken", nil, { codec = { function() return nil, "too big" end, load } })
    raises("^jobs%[1%].payload: dump_payload must return a string, not nil: too big$", function()
      broken:perform_async { { id = 1, payload = 1 } }
    end)
  end)

  it("may have the module's codec", function()
    seriatim.dump_payload = function(payload) return tostring(payload):reverse() end
    seriatim.load_payload = function(data) return tonumber((data:reverse())) end
    assert.equal(123, payload_of(jobs.worker(), 123))
  end)

  it("is JSON on the side that names no function", function()
    seriatim.load_payload = function(data) return data .. "!" end
    assert.equal("[1]!", payload_of(jobs.worker(), { 1 }))
  end)

  it("F12 that cannot be read is buried, and the rest goes on", function()
    for _, load_payload in ipairs { false, function(data) return data ~= "{broken" and tonumber(data) or nil end } do
      local name = load_payload and "Mixed own" or "Mixed"
      local raw = jobs.worker(name, nil, { codec = "raw" })
      raw:perform_async { { id = 1, payload = "{broken" }, { id = 1, payload = "2" }, { id = 2, payload = "3" } }
      local recorder = jobs.worker(name, nil, { batch_size = 10, codec = load_payload and { tostring, load_payload } or nil })
      assert.equal("{broken", recorder.queries:fetch({ 1 })[1].payloads[1][1])
      jobs.serve(recorder)
      jobs.drained(recorder)
      local done = {}
      for _, run in ipairs(jobs.recorded(recorder)) do
        for id, payloads in pairs(run.payloads) do
          done[id] = payloads
        end
      end
      assert.same({ ["1"] = { 2 }, ["2"] = { 3 } }, done)
      local dead = recorder.queries:morgue_fetch { 1 }
      assert.same({ 1, "{broken" }, { #dead, dead[1].payloads[1][1] })
      assert.matches("undecodable payload", dead[1].error)
    end
  end)

  local UNREADABLE = {
    raises = function() error("cannot load", 0) end,
    ["has a reason without a text"] = function() return nil, setmetatable({}, { __tostring = function() error("tostring") end }) end,
  }

  for name, refuse in pairs(UNREADABLE) do
    it("F12 whose codec " .. name .. " is buried without format_error, and the rest goes on", function()
      local formatted = 0
      seriatim.format_error = function()
        formatted = formatted + 1
        error("format")
      end
      local function load_payload(data)
        if data == "bad" then
          return refuse()
        end
        return data
      end
      local recorder = jobs.worker("Leaves " .. name, nil, { batch_size = 10, shards_count = 1, codec = { tostring, load_payload } })
      recorder:perform_async { { id = 1, payload = "bad" }, { id = 1, payload = "good" }, { id = 2, payload = "good" } }
      jobs.serve(recorder)
      jobs.drained(recorder)
      assert.is_true(jobs.includes(recorder:metrics(), { processed = 2, failed = 0, morgue_length = 1 }))
      assert.matches(name == "raises" and "^undecodable payload: cannot load$" or "^undecodable payload: table$",
        recorder.queries:morgue_fetch({ 1 })[1].error)
      assert.equal(0, formatted)
    end)
  end
end)
