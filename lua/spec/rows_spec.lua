-- native.rows gives what the checks in Lua give, or nothing.
local codec = require "seriatim.client.codec"
local jobs = require "seriatim.client.jobs"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local suite = require "support.suite"

local DEFAULTS = { false, false, false, 0, 0, -1, false, false }
local null = native.null

---A row with all its places.
local function full(row)
  local made = {}
  for place, default in ipairs(DEFAULTS) do
    made[place] = row[place]
    if made[place] == nil or default and not made[place] then
      made[place] = default
    elseif made[place] ~= made[place] then
      made[place] = "NaN" -- which is not the same as itself
    end
  end
  return made
end

local VALUES = {
  id = { "a", "", "\0\255", 1, -7, 2 ^ 53, 2 ^ 53 + 2, 1.5, 0 / 0, math.huge, true, null, {} },
  payload = { "x", "", "\255", 5, 0.1, true, false, null, {}, { 1, 2 }, { a = { b = 1 } }, { 1, nil, 3 }, print, seriatim.array {} },
  score = { 1, 2.5, "1", null, 0 / 0, math.huge, {} },
  perform_in = { 5, 1e12, "soon", null },
  perform_at = { 5, null, false },
  delay = { 60, null, "1" },
  on_waiting = { "keep", "later", "later_on", 5, null },
  context = { {}, { tenant = "t", a = "b" }, { tenant = 7 }, { "x" }, "x", null, seriatim.array {}, { [true] = "x" }, { x = "\255" } },
  retry_count = { -1, 0, 25, -2, 0.5, "1", null, 2 ^ 60 },
  paylaod = { 1 },
}
local NAMES = { "id", "payload", "score", "perform_in", "perform_at", "delay", "on_waiting", "context", "retry_count", "paylaod" }

local function random_job()
  local job = { id = "a" }
  for place, name in ipairs(NAMES) do
    local values = VALUES[name]
    if math.random() < (place < 3 and 0.8 or 0.15) then
      job[name] = values[math.random(#values)]
    end
  end
  return job
end

describe("native.rows", function()
  for _, name in ipairs { "json", "raw" } do
    it("agrees with the checks in Lua: " .. name, function()
      local known, agreed = codec[name], 0
      for _ = 1, 20000 do
        local list = { random_job(), random_job() }
        local rows = native.rows(list, name == "raw")
        if rows then
          agreed = agreed + 1
          local expected = jobs.rows(jobs.normalize(list), known)
          assert.equal(#expected, #rows)
          for place, row in ipairs(rows) do
            assert.same(full(expected[place]), full(row))
          end
        end
      end
      assert.is_true(agreed > 100, agreed)
    end)
  end

  it("reads plain jobs", function()
    local usual = {
      {}, { { id = 1 } }, { { id = "a", payload = { x = { 1, 2 } }, score = 1 }, { id = 7, delay = 5, on_waiting = "reject" } },
      { { id = 1, perform_at = 5, perform_in = null, context = { a = "b" }, retry_count = 3, payload = null } },
    }
    for _, list in ipairs(usual) do
      assert.equal(#list, #native.rows(list, false))
    end
    assert.same({ { "1", '""' } }, native.rows({ { id = 1 } }, false))
    assert.same({ { "1", "" }, { "b", "\255" } }, native.rows({ { id = 1 }, { id = "b", payload = "\255" } }, true))
  end)

  it("leaves unusual and invalid jobs to the checks in Lua", function()
    local guarded = setmetatable({ id = 1 }, { __index = {} })
    local unusual = {
      "x", 5, { 5 }, { { id = 1 }, x = 1 }, { [2] = { id = 1 } }, { { id = 1 }, nil, { id = 1 } }, { guarded }, setmetatable({}, {}),
      { { payload = 1 } }, { { id = 1, [1] = 2 } }, { { id = 1, paylaod = 2 } }, { { id = 1, delay = 1, perform_in = 1 } },
      { { id = 1, payload = print } }, { { id = null } }, { { id = 1, on_waiting = "never" } },
    }
    for place, list in ipairs(unusual) do
      assert.is_nil(native.rows(list, false), place)
    end
    assert.is_nil(native.rows(nil, false))
    assert.is_nil(native.rows({ { id = 1, payload = 5 } }, true))
  end)

  if suite.has_int64 then
    it("leaves int64_t ids to others, and writes those of payloads", function()
      local great = require("ffi").new("int64_t", 2 ^ 62)
      assert.is_nil(native.rows({ { id = great } }, false))
      assert.same({ { "1", "4611686018427387904" } }, native.rows({ { id = 1, payload = great } }, false))
    end)
  end
end)
