-- Two-phase commit sets, with the calls of the Redis::Ick gem.

local figures = require "support.figures"
local seriatim = require "seriatim"
local suite = require "support.suite"

local unpack = table.unpack or unpack

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

describe("seriatim.ick", function()
  local ick

  before_each(function()
    ick = seriatim.ick()
  end)

  local function refused(message, call)
    local ok, raised = pcall(call)
    assert.is_false(ok)
    assert.matches(message, tostring(raised), 1, true)
  end

  it("R-ICK-1, R-ICK-14: adds members, and lowers their scores", function()
    assert.same({ n = 1 }, { n = select("#", ick:ickstats("k")), (ick:ickstats("k")) })
    assert.same({ 0, 0 }, ick:ickadd("k"))
    assert.same({ 1, 0 }, ick:ickadd("k", 5, "foo"))
    assert.same({ 1, 0 }, ick:ickadd("k", 10, "foo", 13, "bar"))
    assert.same({ 1, 1 }, ick:ickadd("k", { 4.5, "foo", 1, "baz" }))
    assert.same({
      key = "k", pset_key = "seriatim:{/ick/k}:pset", cset_key = "seriatim:{/ick/k}:cset:consumer", ver = "ick.v2",
      cset_size = 0, pset_size = 3, total_size = 3, consumers = 0, pset_min = 1, pset_max = 13, total_min = 1, total_max = 13,
    }, ick:ickstats("k"))
  end)

  it("R-ICK-2, R-ICK-14: gives a batch again until it is committed", function()
    ick:ickadd("k", 7, "a", 8.25, "b", 9, 42)
    assert.same({}, ick:ickreserve("k"))
    assert.same({ { "a", 7 }, { "b", 8.25 } }, ick:ickreserve("k", 2))
    assert.same({ { "a", 7 }, { "b", 8.25 } }, ick:ickreserve("k", 2))
    assert.equal(1, ick:ickcommit("k", "b"))
    assert.same({ { "42", 9 } }, ick:ickexchange("k", 2, { "a", "unknown" }))
    assert.equal(1, ick:ickcommit("k", { 42 }))
    assert.equal(0, ick:ickstats("k").total_size)
    assert.equal(1, ick:ickdel("k"))
    assert.equal(0, ick:ickunlink("k"))
  end)

  it("R-ICK-6: backwash gives the lowest of all", function()
    ick:ickadd("k", 5, "a")
    ick:ickreserve("k", 1)
    ick:ickadd("k", -math.huge, "first")
    assert.same({ { "a", 5 } }, ick:ickreserve("k", 1))
    assert.same({ { "first", -math.huge } }, ick:ickreserve("k", 1, { backwash = true }))
  end)

  it("R-ICK-4, R-ICK-5: each consumer commits only what it has reserved last", function()
    local other = seriatim.ick { consumer = "other", reserve_time = 5 }
    local restarted = seriatim.ick { url = seriatim.redis_url() }
    ick:ickadd("k", 1, "a")
    assert.same({ { "a", 1 } }, ick:ickreserve("k", 1))
    ick:ickadd("k", 2, "a")
    assert.same({}, other:ickreserve("k", 1))
    assert.same({ { "a", 1 } }, restarted:ickreserve("k", 1))
    assert.equal(0, ick:ickcommit("k", "a"))
    assert.equal(1, restarted:ickcommit("k", "a"))
    assert.same({ { "a", 2 } }, other:ickreserve("k", 1))
  end)

  it("refuses a wrong URL", function()
    refused("url must be a URL, not '5' (string): the scheme must be redis://", function() seriatim.ick { url = "5" } end)
    refused("url must be a URL, not 5 (number)", function() seriatim.ick { url = 5 } end)
  end)

  it("R-ICK-8: takes calls of any size", function()
    local given, members = {}, {}
    for i = 1, 20000 do
      given[2 * i - 1], given[2 * i] = i, i
    end
    assert.same({ 20000, 0 }, ick:ickadd("k", given))
    for place, pair in ipairs(ick:ickreserve("k", 20000)) do
      members[place] = pair[1]
    end
    assert.equal(20000, ick:ickcommit("k", members))
  end)

  it("R-ICK-9, R-ICK-14: sends the calls of a pipeline together", function()
    local batch
    local values = ick:pipelined(function(pipeline)
      pipeline:ickadd("k", 1, "a", 2, "b")
      batch = pipeline:ickreserve("k", 4)
      pipeline:ickadd("k", 5, "a")
      refused("the function of pipelined has ended", function() batch:value() end)
    end)
    assert.same({ { 2, 0 }, { { "a", 1 }, { "b", 2 } }, { 1, 0 } }, values)
    assert.same({ { "a", 1 }, { "b", 2 } }, batch:value())
    assert.equal(2, ick:ickcommit("k", "a", "b"))
  end)

  it("R-ICK-9: a commit of a pipeline has the token that the object had before", function()
    ick:ickadd("k", 1, "a", 2, "b")
    ick:ickreserve("k", 1)
    assert.same({ 1, { { "b", 2 } }, 0 }, ick:pipelined(function(pipeline)
      pipeline:ickcommit("k", "a")
      pipeline:ickreserve("k", 1)
      pipeline:ickcommit("k", "b")
    end))
    assert.equal(1, ick:ickcommit("k", "b"))
  end)

  it("R-ICK-9: the calls of another coroutine run at once while a pipeline is open", function()
    local other
    local values = ick:pipelined(function(pipeline)
      pipeline:ickadd("k", 1, "a")
      coroutine.wrap(function() other = { ick:ickadd("k", 2, "b") } end)()
      assert.is_function(ick:ickadd("k", 4, "d").value)
    end)
    assert.same({ { 1, 0 } }, other)
    assert.same({ { 1, 0 }, { 1, 0 } }, values)
    refused("inside pipelined", function() ick:pipelined(function(pipeline) pipeline:pipelined(print) end) end)
  end)

  it("R-ICK-10: refuses wrong arguments by name, before any write", function()
    refused("the score of member 2 must be a number, not 'x'", function() ick:ickadd("k", 1, "a", "x", "b") end)
    refused("a score and a member for each pair must be given, not 1 arguments", function() ick:ickadd("k", 1) end)
    refused("member 1 must be a string or an integer", function() ick:ickadd("k", 1, true) end)
    refused("name must be a string", function() ick:ickadd(1, 1, "a") end)
    refused("max_size must be an integer from 0", function() ick:ickreserve("k", -1) end)
    refused("backwash must be true or false", function() ick:ickreserve("k", 1, { backwash = 1 }) end)
    refused("statsd must be an object with increment and timing", function() seriatim.ick { statsd = {} } end)
    refused("consumer must be a text of 1 to 512 bytes", function() seriatim.ick { consumer = "" } end)
    refused("reserve_time must be a number of seconds from 0.1", function() seriatim.ick { reserve_time = 0 } end)
    refused("ickstats needs a colon", function() ick.ickstats("k") end)
    refused("the score of member 2 is NaN", function() ick:ickadd("k", 1, "a", 0 / 0, "z") end)
    assert.is_nil((ick:ickstats("k")))
  end)

  it("R-ICK-14: tells statsd of each call once, with its sizes", function()
    local increments, timings = {}, {}
    local statsd = {
      increment = function(_, name) table.insert(increments, name) end,
      timing = function(_, name, value) timings[name] = value end,
    }
    local counted = seriatim.ick { statsd = statsd }
    counted:ickadd("k", 1, "a", 2, "b")
    counted:ickreserve("k", 7)
    counted:ickcommit("k", "a")
    counted:ickexchange("k", 3, { "b" })
    counted:ickstats("k")
    counted:ickdel("k")
    counted:ickunlink("k")
    for place, name in ipairs { "ickadd", "ickreserve", "ickcommit", "ickexchange", "ickstats", "ickdel", "ickunlink" } do
      assert.equal(("profile.ick.%s.calls"):format(name), increments[place])
      assert(timings["profile.ick.time." .. name] >= 0)
    end
    assert.equal(7, #increments)
    assert.equal(2, timings["profile.ick.ickadd.pairs"])
    assert.equal(7, timings["profile.ick.ickreserve.max_size"])
    assert.equal(1, timings["profile.ick.ickcommit.members"])
    assert.equal(3, timings["profile.ick.ickexchange.reserve_size"])
    assert.equal(1, timings["profile.ick.ickexchange.commit_members"])
    assert(timings["profile.ick.ickdel.time"])
  end)

  -- Random steps of two to four consumers on one set. Two of the objects have one name: each is the other's zombie, which goes on with a
  -- batch that it was given long ago. A member that was added after the last reserve whose batch was committed must be given once more.
  -- core/test/test_ick_walk.c does the same and looks into Redis after each step.
  local END_ALL = "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, who) end return 0"
  local Walk = {}
  Walk.__index = Walk

  local function members(pairs_given)
    local names = {}
    for place, pair in ipairs(pairs_given) do
      names[place] = pair[1]
    end
    return names
  end

  local function new_walk(name)
    local walk = { name = name, users = {}, batches = {}, added = {}, done = {} }
    for place, consumer in ipairs { "one", "one", "two", "three" } do
      if place <= 2 or math.random(2) == 1 then
        table.insert(walk.users, seriatim.ick { consumer = consumer })
        table.insert(walk.batches, { {}, 0 }) -- members, the step of the reserve
      end
    end
    return setmetatable(walk, Walk)
  end

  ---The consumer has processed its batch, whatever becomes of the commit.
  function Walk:processed(at)
    local batch, step = unpack(self.batches[at])
    for _, member in ipairs(batch) do
      self.done[member] = math.max(self.done[member] or 0, step)
    end
    self.batches[at] = { {}, step }
    return batch
  end

  function Walk:end_reservations()
    suite.redis:call("EVAL", END_ALL, 1, "seriatim:{/ick/" .. self.name .. "}:ends")
  end

  function Walk:step(number)
    local at, what, size, options = math.random(#self.users), math.random(10), math.random(0, 5), { backwash = math.random(5) == 1 }
    local user = self.users[at]
    if what <= 4 then
      local member = "m" .. math.random(12)
      user:ickadd(self.name, math.random(50), member)
      self.added[member] = number
    elseif what <= 6 then
      self.batches[at] = { members(user:ickreserve(self.name, size, options)), number }
    elseif what <= 8 then
      user:ickcommit(self.name, self:processed(at))
    else
      self.batches[at] = { members(user:ickexchange(self.name, size, self:processed(at), options)), number }
    end
    if math.random(64) == 1 then
      self:end_reservations()
    end
  end

  ---Members that should have been given once more, and were not.
  function Walk:forgotten()
    self:end_reservations()
    local last, given, gone = seriatim.ick { consumer = "last" }, {}, {}
    for _, member in ipairs(members(last:ickreserve(self.name, 100))) do
      given[member] = true
    end
    last:ickdel(self.name)
    for member, step in pairs(self.added) do
      if step > (self.done[member] or 0) and not given[member] then
        gone[#gone + 1] = member
      end
    end
    return gone
  end

  it("R-ICK-13: gives each member again that was added after the reserve that gave it", function()
    local seed = figures.count(1, os.time())
    math.randomseed(seed)
    local walks = figures.count(3, 500)
    for number = 1, walks do
      local walk = new_walk("walk" .. number)
      for step = 1, 200 do
        walk:step(step)
      end
      assert.same({ seed, number, {} }, { seed, number, walk:forgotten() })
    end
    local what = ("steps of consumers of a set in %s, one of them old; members forgotten"):format(jit and "LuaJIT" or _VERSION)
    figures.note("R-ICK-13", what, walks * 200 .. "; 0")
  end)
end)
