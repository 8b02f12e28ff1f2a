-- The C module: JSON, connections, deliveries, threads, processes; and that nothing grows.

local RedisServer = require "support.redis_server"
local native = require "seriatim.native"

local has_jit, has_integers = type(rawget(_G, "jit")) == "table", math.type ~= nil

if has_jit then
  require "seriatim.client.int64"
end
local interpreter = has_jit and "luajit" or has_integers and "lua5.4" or "lua5.1"

local function raises(pattern, called, ...)
  local ok, raised = pcall(called, ...)
  assert(not ok, "nothing was raised")
  assert(tostring(raised):find(pattern), ("%q does not match %q"):format(tostring(raised), pattern))
end

local function eventually(check, seconds)
  local deadline = native.now_ms() + (seconds or 60) * 1000
  repeat
    local value = check()
    if value then
      return value
    end
    native.sleep(0.005)
  until native.now_ms() > deadline
  error("not in time", 2)
end

---Runs a program of this interpreter; its output and how it ended.
local function run(program)
  local name = os.tmpname()
  local file = assert(io.open(name, "wb"))
  file:write(program)
  file:close()
  local command = ("LUA_PATH='%s' LUA_CPATH='%s' %s %s 2>&1; echo \"ended $?\""):format(package.path, package.cpath, interpreter, name)
  local pipe = assert(io.popen(command))
  local text = pipe:read("*a")
  pipe:close()
  os.remove(name)
  return text:match("^(.-)ended (%d+)%s*$")
end

---A text of a vector, which may be bytes in hex, or repeated.
local function text_of(value)
  if type(value) ~= "table" then
    return value
  end
  if value.hex then
    return (value.hex:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end))
  end
  return value["repeat"]:rep(value.times)
end

local function vectors(name)
  local file = assert(io.open("spec/conformance/vectors/" .. name .. ".json", "rb"))
  local rows = assert(native.load(file:read("*a"))).rows
  file:close()
  return rows
end

-- ---- JSON

describe("dump", function()
  local function nested(depth)
    local value = setmetatable({}, native.array_mt)
    for _ = 2, depth do
      value = { value }
    end
    return value
  end

  it("writes canonical JSON", function()
    local value = { b = 1, a = { 1, 2.5, native.null, true, false } }
    assert.equal('{"a":[1,2.5,null,true,false],"b":1}', native.dump(value, "payload"))
    assert.equal("[1e+21,1e-7,100000000000000000000,0.1,0,5e-324,1]", native.dump({ 1e21, 1e-7, 1e20, 0.1, -0.0, 5e-324, 1.0 }, ""))
    assert.equal("[9007199254740992,-9007199254740992]", native.dump({ 2 ^ 53, -2 ^ 53 }, ""))
    assert.equal('"\\"\\\\\\n\\u0000é"', native.dump('"\\\n\0é', ""))
  end)

  it("takes an empty table for an object, unless it is marked", function()
    assert.equal("{}", native.dump({}, ""))
    assert.equal("[]", native.dump(setmetatable({}, native.array_mt), ""))
    assert.equal('{"a":[],"b":{}}', native.dump(native.load('{"b":{},"a":[]}'), ""))
  end)

  it("refuses what has no place in JSON, naming where", function()
    local root = "jobs[1].payload"
    local keys = ": a table must be a list from 1 on without holes, or have only text keys$"
    raises("^jobs%[1%]%.payload%.a%[2%]: function cannot be written as JSON$", native.dump, { a = { 1, print } }, root)
    raises("^jobs%[1%]%.payload%.a%[3%]%.b" .. keys, native.dump, { a = { 1, 2, { b = { 1, nil, 3 } } } }, root)
    raises("^jobs%[1%]%.payload" .. keys, native.dump, { 1, x = 2 }, root)
    raises("^jobs%[1%]%.payload" .. keys, native.dump, { x = 2, [true] = 1 }, root)
    raises("^jobs%[1%]%.payload" .. keys, native.dump, { [0] = 1 }, root)
    raises("^jobs%[1%]%.payload" .. keys, native.dump, { [1.5] = 1 }, root)
    raises("^jobs%[1%]%.payload" .. keys, native.dump, setmetatable({ a = 1 }, native.array_mt), root)
    raises('^jobs%[1%]%.payload%["two words"%]%[1%]: NaN has no place in JSON$', native.dump, { ["two words"] = { 0 / 0 } }, root)
    raises("^jobs%[1%]%.payload%.x: ", native.dump, { x = math.huge }, root)
    raises("^jobs%[1%]%.payload%[1%]: a string must be valid UTF%-8$", native.dump, { "\255" }, root)
    raises("^jobs%[1%]%.payload: a key must be valid UTF%-8$", native.dump, { ["\255"] = 1 }, root)
    raises("^jobs%[1%]%.payload: nil cannot be written as JSON$", native.dump, nil, root)
    raises("^jobs%[1%]%.payload: thread cannot", native.dump, coroutine.create(function() end), root)
  end)

  it("ends at cycles", function()
    local value = {}
    value.again = { value }
    raises("^payload%.again%[1%]%.again%[1%].*: a value that contains itself cannot be written as JSON$", native.dump, value, "payload")
    assert.equal(("["):rep(128) .. ("]"):rep(128), native.dump(nested(128), ""))
    raises("128 deep", native.dump, nested(129), "")
  end)

  it("agrees with the vectors", function()
    for _, row in ipairs(vectors("json")) do
      local text = text_of(row.text)
      if text and row.refused then
        local value, kind = native.load(text)
        assert.same({ n = 2, nil, "UNDECODABLE" }, { n = 2, value, kind })
      elseif text then
        local ok, written = pcall(native.dump, (native.load(text)), "")
        local exact = has_integers or has_jit or not tostring(row.canonical):find("%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d")
        assert(ok, written)
        assert(not exact or written == row.canonical, ("%s: %s"):format(text, written))
      end
    end
  end)
end)

describe("load", function()
  it("marks lists and reads null", function()
    local value = native.load('{"a":[1,[],"x"],"n":null}')
    assert.equal(native.array_mt, getmetatable(value.a))
    assert.equal(native.array_mt, getmetatable(value.a[2]))
    assert.equal(nil, getmetatable(value))
    assert.equal(native.null, value.n)
    assert.equal(3, #value.a)
  end)

  it("says what is wrong", function()
    local value, kind, message = native.load('[1,2,{"a":[]}')
    assert.same({ n = 3, nil, "UNDECODABLE", "at byte 13: a comma or ] is expected" }, { n = 3, value, kind, message })
    raises("JSON must be a string", native.load, 5)
  end)

  it("keeps integers exact", function()
    for _, text in ipairs { "9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992" } do
      local value = native.load(text)
      local expected = not has_integers and not has_jit and text ~= "9007199254740992" and '"' .. text .. '"' or text
      assert.equal(expected, native.dump(value, ""))
    end
    if has_integers then
      assert.equal("integer", math.type(native.load("1.0")))
      assert.equal("float", math.type(native.load("1.5")))
      assert.equal("[1,9223372036854775807]", native.dump({ 1.0, math.maxinteger }, ""))
    elseif has_jit then
      assert.equal("cdata", type(native.load("9007199254740993")))
    else
      assert.equal("9007199254740993", native.load("9007199254740993"))
    end
  end)
end)

describe("arithmetic", function()
  it("agrees with the vectors", function()
    for _, row in ipairs(vectors("shard_of")) do
      assert.equal(row.shard, native.shard_of(text_of(row.id), row.shards_count))
    end
    for _, row in ipairs(vectors("back_off")) do
      local seconds = native.back_off(row.retry_count)
      assert(seconds >= row.min and seconds <= row.max, row.retry_count)
    end
    for _, row in ipairs(vectors("split")) do
      local expected = {}
      for place, group in ipairs(row.groups) do
        expected[place] = {}
        for at, shard in ipairs(group) do
          expected[place][at] = shard + 1
        end
      end
      assert.same(expected, native.split(row.shards, row.nodes, row.node, row.threads))
    end
  end)

  it("gives host name, pid and clock", function()
    assert.equal(16, #native.random_hex(8))
    assert.not_equal(native.random_hex(8), native.random_hex(8))
    assert(math.abs(native.time() - os.time()) < 20)
    local before = native.now_ms()
    native.sleep(0.05)
    assert(native.now_ms() - before >= 49)
    assert(#native.hostname() > 0 and native.getpid() > 1)
  end)

  it("lets go of the functions of a dashboard's request when the client is closed", function()
    local client = native.client(nil, "spec", 0)
    local held = setmetatable({ function() return client end }, { __mode = "v" })
    client:web({ workers = {} }, { method = "GET", path = "/api/v1/stats", headers = {}, role = 3 }, held[1], nil)
    client:give_up("IO", "closed")
    client:close()
    collectgarbage()
    collectgarbage()
    assert.is_nil(held[1])
  end)

  it("takes URLs apart", function()
    local url = native.parse_url("rediss://me:p%40ss@[::1]:7/3")
    assert.same({ scheme = "rediss", host = "::1", port = 7, user = "me", password = "p@ss", database = 3,
                  redacted = "rediss://me:***@[::1]:7/3" }, url)
    assert.same("/a b", native.parse_url("unix:///a%20b?db=2").path)
    local cluster = native.parse_url("rediss+cluster://me:x@h:7,[::1]")
    assert.same({ "redis+cluster", true }, { cluster.scheme, cluster.tls })
    assert.same({ { host = "h", port = 7 }, { host = "::1", port = 6379 } }, cluster.hosts)
    local none, kind, message = native.parse_url("http://me:secret@h")
    assert.equal(nil, none)
    assert.equal("INVALID", kind)
    assert(not message:find("secret"))
  end)
end)

-- ---- Redis

local NAMESPACE = "native spec"
local redis

local function settings(changes)
  local row = { queue_name = "q", shards_count = 1, batch_size = 1000 }
  for place, value in pairs(changes or {}) do
    row[place] = value
  end
  return row
end

local function row(id, value, changes)
  local made = { id, native.dump(value == nil and 0 or value, "payload"), false, 0, 0, -1, false, false }
  for place, change in pairs(changes or {}) do
    made[place] = change
  end
  return made
end

local function link()
  return assert(native.link(redis.url, NAMESPACE, "native-spec", 0))
end

local function push(rows, changes)
  local one = link()
  assert(one:push(one:queue(settings(changes)), rows))
  return one:drive(30)
end

local made_runners = {}

local function close_runners()
  for _, made in ipairs(made_runners) do
    made:close()
  end
  made_runners = {}
end

---Closed when the test ends.
local function runner(changes)
  local made = assert(native.runner {
    url = redis.url, namespace = NAMESPACE, name = "native-spec", id = "n" .. native.random_hex(8), description = "native spec",
    lease_ms = 10000, poll_ms = 50, threads = 2, scheduler = 0,
  })
  made_runners[#made_runners + 1] = made
  assert.equal(0, made:worker(settings(changes)))
  assert(made:start())
  return made
end

local function take(source)
  return eventually(function()
    source:pulse()
    return source:take(0, 0.1)
  end)
end

local function figures()
  local one = link()
  one:metrics(one:queue(settings()))
  return one:drive(30)
end

describe("with Redis", function()
  setup(function() redis = RedisServer.start() end)
  before_each(function() redis:flush() end)
  after_each(close_runners)
  teardown(function() redis:remove() end)

  describe("a link", function()
    it("pushes and counts", function()
      local one = link()
      local queue = one:queue(settings { on_waiting = "reject" })
      assert.equal(true, one:push(queue, { row("a", 1), row("a", 1), row("b", 2) }))
      local added, folded, refused = one:drive(30)
      assert.same({ 2, 0, { 2 } }, { added, folded, refused })
      assert.same({ 2, 0, { 2 }, [6] = 0, [7] = 0, [8] = {} }, { one:result() })
      assert.equal(true, one:layout(queue))
      assert.equal(1, one:drive(30))
    end)

    it("raises invalid arguments, naming the job from 1", function()
      local one = link()
      local queue = one:queue(settings())
      raises("^jobs%[2%]: id is empty$", one.push, one, queue, { row("a"), row("") })
      raises("^jobs%[1%]: score must be a finite number$", one.push, one, queue, { row("a", 1, { [3] = math.huge }) })
      raises("id must be a string, not number", one.push, one, queue, { row("a"), row(5) })
      raises("batch_size", one.queue, one, settings { batch_size = 0 })
      raises("no queue", one.push, one, 7, { row("a") })
      raises("no operation was begun", one.drive, one)
      assert(one:push(queue, { row("a") }))
      raises("has not ended", one.result, one)
      raises("busy", one.push, one, queue, { row("a") })
      assert.equal(1, (one:drive(30)))
      raises("a Link or a Client is expected", one.push, {}, queue, {})
      raises("a Link or a Client is expected", one.push, io.stdout, queue, {})
    end)

    it("answers operators", function()
      local one = link()
      local queue = one:queue(settings())
      push { row("a", { x = 1 }, { [3] = 7 }), row("b", 2, { [4] = 2, [5] = 60 }) }
      one:query(queue, "range_by_id", false, nil, nil, 10, -1, nil)
      local found = one:drive(30)
      assert.same({ "a", "waiting", "b", "delayed" }, { found[1].id, found[1].state, found[2].id, found[2].state })
      assert.same({ { '{"x":1}', 7 } }, found[1].payloads)
      assert.equal(nil, found[1].error)
      one:query(queue, "fetch", false, nil, nil, 10, -1, { "b", "nobody" })
      assert.equal("b", one:drive(30)[1].id)
      raises("min", one.query, one, queue, "range_by_id", false, "x", nil, 10, -1, nil)
      assert.equal(2, figures().length)
      assert.equal(2, figures().shards[1].length)
      one:explain(queue, "a")
      assert(one:drive(30).text:find("became due"))
      one:action(queue, "delete", { "a" })
      assert.equal(1, one:drive(30))
      one:check(queue, false)
      local count, findings = one:drive(30)
      assert.equal(0, #findings)
      assert(count >= 1)
      one:nodes()
      assert.same({}, one:drive(30))
      one:queues()
      assert.same({ "q" }, one:drive(30))
      one:health()
      assert.same({ "noeviction", true, 0 }, { one:drive(30) })
    end)

    it("returns runtime failures as nil, kind, message", function()
      local one = assert(native.link("unix:///nowhere/at/all", NAMESPACE, nil, 0))
      one:health()
      local result, kind, message = one:drive(0.3)
      assert.equal(nil, result)
      assert.equal("IO", kind)
      assert.matches("^cannot connect to unix:///nowhere/at/all.*: No such file or directory", message)
      one:close()
      assert.same({ n = 3, nil, "CLOSED", "the link is closed" }, { n = 3, one:health() })
      assert.same({ n = 3, nil, "CLOSED", "the link is closed" }, { n = 3, one:drive() })
      local none
      none, kind = native.link("http://x", NAMESPACE, nil, 0)
      assert.same({ n = 2, nil, "INVALID" }, { n = 2, none, kind })
    end)

    it("waits no longer than it is told", function()
      local one = link()
      os.execute("kill -STOP " .. redis.pid)
      one:health()
      local before = native.now_ms()
      local result, kind = one:drive(0.1)
      assert.same({ n = 2, nil, "TIMEOUT" }, { n = 2, result, kind })
      os.execute("kill -CONT " .. redis.pid)
      assert(native.now_ms() - before < 15000) -- an answer is waited for 30
      assert(one:health())
      assert.equal("noeviction", (one:drive(30)))
    end)

    it("shows no password", function()
      assert.equal("redis://me:***@127.0.0.1:1/0", native.link("redis://me:secret@127.0.0.1:1", nil, nil, 0):url())
    end)
  end)

  describe("a delivery", function()
    it("makes a round trip", function()
      push { row("a", { n = 1 }), row("a", { 2 }), row("\255", native.null, { [8] = '{"k":"v"}' }) }
      local node = runner()
      local delivery = take(node)
      assert.same({ "run", 0, 0, 2 }, { delivery:kind(), delivery:worker(), delivery:shard(), delivery:size() })
      local map, ids = delivery:payloads_by_id(), delivery:ids()
      assert.same({ "a", "\255" }, ids)
      assert.same({ a = { { n = 1 }, { 2 } }, ["\255"] = { native.null } }, map)
      local id, fence, retry_count, perform_in, err, payloads = delivery:job(2)
      assert.same({ n = 4, "\255", -1, nil, "null", '{"k":"v"}' }, { n = 4, id, retry_count, err, payloads[1][1], payloads[1][3] })
      assert(fence > 0 and math.abs(perform_in - native.time()) < 60)
      assert(delivery:done_all())
      assert(delivery:settle())
      for _, use in ipairs { "settle", "done_all", "payloads_by_id" } do
        assert.same({ n = 3, nil, "CLOSED", "the delivery is settled" }, { n = 3, delivery[use](delivery) })
      end
      eventually(function() return figures().processed == 2 end)
      eventually(function() return node:stats().processed == 2 end)
      node:close()
    end)

    it("reports each outcome", function()
      push { row("done"), row("fail"), row("release"), row("reject", 1), row("reject", 2), row("nothing") }
      local node = runner()
      local delivery = take(node)
      local places = {}
      for place = 1, delivery:size() do
        places[delivery:job(place)] = place
      end
      assert(delivery:done(places.done))
      assert(delivery:fail(places.fail, "oops", 60))
      assert(delivery:release(places.release))
      assert(delivery:reject(places.reject, { 2 }, "bad"))
      assert(delivery:extend(places.nothing, 60))
      raises("no such id", delivery.done, delivery, 7)
      raises("no such id", delivery.done, delivery, 0)
      raises("ascending", delivery.reject, delivery, places.reject, { 3 }, "bad")
      raises("ascending", delivery.reject, delivery, places.reject, { 2, 1 }, "bad")
      assert(delivery:settle())
      eventually(function()
        local now = figures()
        return now.processed == 1 and now.failed == 1 and now.morgue_length == 1
      end)
      local again, seen = take(node), {}
      while true do
        for place = 1, again:size() do
          seen[again:job(place)] = true
        end
        again:done_all()
        again:settle()
        if seen.release and seen.reject and seen.nothing then
          break
        end
        again = take(node)
      end
      assert.equal(nil, seen.fail)
      node:close()
    end)

    it("F12 cannot read what is no JSON", function()
      push { { "a", "{", false, 0, 0, -1, false, false } }
      local node = runner()
      local delivery = take(node)
      assert.equal(nil, (delivery:payloads_by_id()))
      node:close()
      assert.same({ n = 3, nil, "CLOSED", "the runner is closed" }, { n = 3, delivery:payloads_by_id() })
      assert.same({ n = 3, nil, "CLOSED", "the runner is closed" }, { n = 3, delivery:settle() })
    end)

    it("is settled when it is collected", function()
      push { row("a") }
      local node = runner()
      local first = take(node)
      assert.equal("a", (first:job(1)))
      first = nil
      collectgarbage()
      collectgarbage()
      local second = take(node)
      assert.equal("a", (second:job(1)))
      node, made_runners = nil, {}
      collectgarbage()
      assert.equal("a", (second:job(1))) -- it keeps its runner
      second:done_all()
      second:settle()
      second = nil
      collectgarbage()
    end)
  end)

  describe("a runner", function()
    it("waits as long as it is told, and until it is stopped", function()
      local node = runner()
      assert.equal(nil, node:take(0, 0))
      local before = native.now_ms()
      assert.equal(nil, node:take(0, 0.1))
      assert(native.now_ms() - before >= 99)
      raises("no such group", node.take, node, 1)
      raises("started already", node.group, node, 0, {})
      assert.same({}, node:candidates(0, 10))
      assert(node:stop())
      assert.equal(false, node:take(0))
      eventually(function() return node:stopped() end)
      node:close()
      node:close()
      assert.equal(false, node:take(0))
      assert.same({ n = 3, nil, "CLOSED", "the runner is closed" }, { n = 3, node:stats() })
    end)

    it("gives from a shard that was chosen", function()
      push { row("a") }
      local node = runner()
      local rows = eventually(function()
        local found = node:candidates(0, 10)
        return found[1] and found
      end)
      assert.same({ 0, 0, 1 }, { rows[1][1], rows[1][2], rows[1][4] })
      assert.equal("a", (node:take_from(0, 0, 0):job(1)))
      node:close()
    end)

    it("is shared by threads, and closing it ends their waits", function()
      local node, threads = runner { [2] = 8 }, {}
      for place = 1, 4 do
        threads[place] = assert(native.thread([[
          local native = require "seriatim.native"
          local node = native.runner_of((...))
          while true do
            local delivery = node:take(0)
            if delivery == false then
              return
            end
            local map, ids = delivery:payloads_by_id(), delivery:ids()
            for _, id in ipairs(ids) do
              assert(map[id][1].n)
            end
            collectgarbage("step")
            delivery:done_all()
            delivery:settle()
          end
        ]], "=taker", node:handle()))
      end
      local rows = {}
      for i = 1, 500 do
        rows[i] = row("id" .. i, { n = i })
      end
      push(rows, { [2] = 8, [3] = 3 })
      eventually(function()
        node:pulse()
        return node:stats().processed == 500
      end)
      for _, thread in ipairs(threads) do
        assert(thread:alive())
        eventually(function() return thread:traceback(5):find("taker:4") end) -- the last jobs may not have returned yet
      end
      node:close()
      for _, thread in ipairs(threads) do
        assert.same({ n = 2, true, nil }, { n = 2, thread:join(60) })
      end
    end)

    it("F23 ends with the process that made it", function()
      local text, code = run(([[
        local native = require "seriatim.native"
        local pid = native.getpid()
        local node = assert(native.runner { url = %q, id = "x", lease_ms = 2000, poll_ms = 50, threads = 1, scheduler = 0 })
        node:worker { queue_name = "q" }
        assert(node:start())
        node = nil
        collectgarbage()
        print("fine")
      ]]):format(redis.url))
      assert.same({ "fine\n", "0" }, { text, code })
    end)
  end)

  it("starts a private Redis", function()
    local folder = redis.folder .. "/private"
    local own = assert(native.private_redis(folder))
    assert.equal(true, own:started())
    local one = assert(native.link(own:url(), NAMESPACE, nil, 0))
    one:health()
    assert.equal("noeviction", (one:drive(30)))
    assert.equal(false, native.private_redis(folder):started())
    one:close()
    own:release()
    own:release()
    assert.same({ n = 3, nil, "CLOSED", "the private Redis is released" }, { n = 3, own:url() })
    raises("folder must be a string", native.private_redis, 5)
  end)

  -- ---- without sockets: each exchange is a connection of its own

  local function exchange(bytes)
    local name = os.tmpname()
    local file = assert(io.open(name, "wb"))
    file:write(bytes)
    file:close()
    local pipe = assert(io.popen(([["${PYTHON:-/usr/bin/python3}" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("%s/s"); s.sendall(open("%s", "rb").read()); s.settimeout(20)
try:
    while True:
        sys.stdout.buffer.write(s.recv(65536))
        s.settimeout(0.05)
except TimeoutError:
    pass']]):format(redis.folder, name)))
    local answer = pipe:read("*a")
    pipe:close()
    os.remove(name)
    return answer
  end

  describe("a client", function()
    local function drive(client, fresh)
      while client:status() == "again" do
        assert(client:connected(nil, nil, 0, fresh))
        local bytes = client:output()
        client:sent(#bytes)
        while client:status() == "again" and #bytes > 0 do
          assert(client:input(exchange(bytes)))
          bytes = client:output()
          client:sent(#bytes)
        end
        client:disconnected()
      end
    end

    it("pushes by its host's sockets", function()
      local client = assert(native.client(NAMESPACE, "spec", 0))
      assert(client:push(client:queue(settings()), { row("a", 1) }))
      assert.equal("again", client:status())
      assert.equal("", client:output())
      drive(client)
      assert.same({ 1, 0, {}, [6] = 0, [7] = 0, [8] = {} }, { client:result() })
      assert.equal(true, client:status())
    end)

    it("sends a fresh connection its handshake first and alone", function()
      local client = assert(native.client(NAMESPACE, "spec", 0))
      assert(client:health())
      client:connected("me", "secret", 3, true)
      local greeting = client:output()
      assert(greeting:find("AUTH") and greeting:find("secret") and greeting:find("SELECT") and greeting:find("SETNAME"))
      client:disconnected()
      client:connected("me", "secret", 3, false)
      local bytes = client:output()
      assert(not greeting:find("INFO")) -- what is asked waits until the greeting is answered
      assert(bytes:find("INFO") and not bytes:find("SETNAME") and not bytes:find("AUTH"))
      client:disconnected()
      client:connected(nil, nil, 0, true)
      assert(client:output():find("SETNAME"))
      raises("more than there was", client.sent, client, 1e6)
    end)

    it("ends its operation when its host gives up", function()
      local client = assert(native.client(NAMESPACE, "spec", 0))
      local queue = client:queue(settings())
      client:push(queue, { row("a", 1) })
      assert.same({ n = 3, nil, "IO", "no way" }, { n = 3, client:give_up("IO", "no way") })
      assert.same({ n = 3, nil, "IO", "no way" }, { n = 3, client:result() })
      client:layout(queue)
      drive(client)
      client:push(queue, { row("a", 1) })
      client:connected(nil, nil, 0, false)
      client:sent(#client:output())
      local _, kind = client:give_up("TIMEOUT", "no answer")
      assert.equal("UNKNOWN_OUTCOME", kind)
      client:push(queue, { row("a", 1) })
      client:connected()
      local ok
      ok, kind = client:input("nonsense\r\n")
      assert.same({ n = 2, nil, "PROTOCOL" }, { n = 2, ok, kind })
      raises("no such kind", client.give_up, client, "AGAIN", "x")
      raises("driven by its host", link().drive, client)
      client:close()
      assert.same({ n = 3, nil, "CLOSED", "the link is closed" }, { n = 3, client:status() })
    end)
  end)

  describe("a node", function()
    it("works by its host's sockets", function()
      push { row("a", { n = 5 }) }
      local node = assert(native.node {
        namespace = NAMESPACE, name = "native-spec", id = "n" .. native.random_hex(8), lease_ms = 20000, poll_ms = 50, threads = 1,
        scheduler = 0,
      })
      raises("not started", node.tick, node)
      node:worker(settings())
      assert(node:start())
      assert(node:connected(2, nil, nil, 0))
      assert(node:output(2):find("SUBSCRIBE"))
      local function talk()
        node:connected(1, nil, nil, 0)
        for _ = 1, 6 do
          assert(node:tick() >= 0)
          local bytes = node:output(1)
          node:sent(1, #bytes)
          if #bytes > 0 then
            assert(node:input(1, exchange(bytes)))
          end
        end
        node:disconnected(1)
      end
      local delivery = eventually(function()
        node:pulse()
        talk()
        return node:news(0) and node:take(0)
      end)
      assert.same({ a = { { n = 5 } } }, (delivery:payloads_by_id()))
      assert(delivery:extend(1, 5))
      delivery:done_all()
      delivery:settle()
      eventually(function()
        talk()
        return figures().processed == 1
      end)
      assert.equal(1, node:stats().processed)
      assert.equal("link", (node:event()))
      eventually(function() -- a poll may have become due at the end of the last talk
        talk()
        return node:waits(1) == false
      end)
      local ok, kind = node:input(2, "nonsense\r\n")
      assert.same({ n = 2, nil, "PROTOCOL" }, { n = 2, ok, kind })
      node:stop()
      eventually(function()
        talk()
        return node:stopped()
      end)
      assert.equal(false, node:take(0))
      node:close()
      assert.same({ n = 3, nil, "CLOSED", "the runner is closed" }, { n = 3, node:tick() })
    end)
  end)

  if not has_integers then -- Lua 5.4 only warns of an error of a finalizer
    it("can be used on after a finalizer of the application has raised inside of a call", function()
      push { row("a", 1) }
      local text, code = run(([[
        local URL, NAMESPACE = %q, %q
        local native = require "seriatim.native"
        native.thread("require('seriatim.native').sleep(60) require('seriatim.native').exit(9)", "=limit")

        local raises = false
        local function finalize()
          if raises then
            error("finalizer", 0)
          end
        end

        ---The collector stands still while garbage is made, and goes on at the first allocation of the call.
        local function storm(called, ...)
          local raised = 0
          for _ = 1, 2000 do
            collectgarbage("stop")
            for _ = 1, 10 do
              getmetatable(newproxy(true)).__gc = finalize
            end
            collectgarbage("restart")
            raises = true
            local ran, err = pcall(called, ...)
            raises = false
            if not ran then
              assert(err == "finalizer", err)
              raised = raised + 1
            end
          end
          assert(raised > 0)
        end

        local function tasks()
          local pipe = io.popen("ls /proc/" .. native.getpid() .. "/task | wc -l")
          local count = tonumber(pipe:read("*a"))
          pipe:close()
          return count
        end

        local settings = { queue_name = "q", shards_count = 1, batch_size = 1000 }
        local before = tasks()
        local link = assert(native.link(URL, NAMESPACE, "native-spec", 0))
        assert(link:layout(link:queue(settings)))
        assert(link:drive(30) == 1)
        storm(link.result, link)
        local fake = native.fake()
        storm(fake.rows, fake, fake:queue(settings))
        local runner = assert(native.runner {
          url = URL, namespace = NAMESPACE, name = "native-spec", id = "finalizers", description = "", lease_ms = 60000, poll_ms = 50,
          threads = 2, scheduler = 0,
        })
        assert(runner:worker(settings, "text") == 0 and runner:start())
        storm(runner.change, runner, 0)
        local delivery
        repeat
          runner:pulse()
          delivery = runner:take(0, 0.1)
        until delivery
        storm(delivery.ids, delivery)
        storm(delivery.job, delivery, 1)
        storm(delivery.payloads_by_id, delivery)
        delivery:done_all()
        assert(delivery:settle())
        runner:close()
        while tasks() > before do
          native.sleep(0.01)
        end
        native.exit(7)
      ]]):format(redis.url, NAMESPACE))
      assert.same({ "", "7" }, { text, code })
    end)
  end

  describe("memory", function()
    it("does not grow, whenever the collector runs", function()
      local function storm(count)
        local node = runner()
        for i = 1, count do
          local one = link()
          one:push(one:queue(settings()), { row("a", { i, { n = i } }), row("b", "x") })
          pcall(native.dump, { a = { {}, print } }, "x")
          native.load('{"a":[1,{"b":"\\u00e9\\n"}]')
          native.parse_url("redis://h")
          if i % 10 == 0 then
            one:drive(30)
            local delivery = eventually(function()
              collectgarbage() -- settles those before
              node:pulse()
              return node:take(0, 0.02)
            end)
            delivery:payloads_by_id()
            if i % 20 == 0 then
              delivery:done_all()
              delivery:settle()
            end
          end
          collectgarbage("step")
        end
        node:close()
        collectgarbage()
        collectgarbage()
      end
      local function resident()
        local file = assert(io.open("/proc/self/status"))
        local kib = tonumber(file:read("*a"):match("VmRSS:%s*(%d+)"))
        file:close()
        return kib
      end
      -- What the collector and malloc are behind by is reached after some rounds; only a leak grows in each of them.
      local function settles(round)
        local grew
        for _ = 1, 8 do
          local before = resident()
          round()
          grew = resident() - before
          if grew < 1024 then return end
        end
        assert(os.getenv("LD_PRELOAD"), ("grew by %d KiB in the eighth round too"):format(grew)) -- valgrind and ASan keep what is freed
      end
      settles(function() storm(500) end)
      settles(function()
        for _ = 1, 50000 do
          assert(native.client(NAMESPACE, nil, 0))
          native.load("[1]")
        end
        collectgarbage()
        collectgarbage()
      end)
    end)
  end)
end)

-- ---- threads, signals, processes

describe("places", function()
  it("are counted over the Lua states of a process", function()
    local places = native.places()
    local ours = assert(places:take(3))
    assert.equal(1, places:taken())
    local thread = assert(native.thread([[
      local places = require("seriatim.native").places(...)
      assert(places:taken() == 1)
      assert(places:take(3) and places:take(3), "two are free")
      assert(not places:take(3), "all are taken")
    ]], "=places", places:share()))
    assert.same({ n = 1, true }, { n = 1, (thread:join(60)) })
    assert(eventually(function() return places:taken() == 1 end)) -- the end of the other state gave its own back
    ours:leave()
    ours:leave()
    assert.equal(0, places:taken())
  end)

  it("come back when the coroutine that took one is dropped", function()
    local places = native.places()
    local function begin() -- whose stack, which would keep the coroutine, ends
      coroutine.wrap(function()
        local place = places:take(1)
        coroutine.yield()
        place:leave()
      end)()
    end
    begin()
    assert.equal(1, places:taken())
    assert(eventually(function()
      collectgarbage()
      return places:taken() == 0
    end))
    raises("places of another Lua state expected", native.places, 5)
  end)
end)

describe("a thread", function()
  it("gets its arguments, and says how it ended", function()
    local thread = assert(native.thread([[
      local a, b, c, d, e = ...
      assert(a == "x\0y" and b == 1.5 and c == true and d == nil and e == require("seriatim.native").null)
      assert(select("#", ...) == 5)
    ]], "=args", "x\0y", 1.5, true, nil, native.null))
    assert.same({ n = 2, true, nil }, { n = 2, thread:join(60) })
    assert.equal(false, thread:alive())
    assert.equal("ended", thread:traceback(1))
    raises("a table cannot go to another thread", native.thread, "", "=x", {})
    local ended, failure = native.thread("error { }", "=x"):join(60)
    assert(ended and failure:find("an error of type table"))
    ended, failure = native.thread("local function f()\n error('oops') end\nf()", "=place"):join(60)
    assert(ended and failure:find("place:2: oops.*traceback.*place:3"))
    ended, failure = native.thread("x =", "=syntax"):join(60)
    assert(ended and failure:find("syntax:1"))
  end)

  it("is not waited for too long", function()
    local thread = assert(native.thread("require('seriatim.native').sleep(5)", "=sleeper"))
    local before = native.now_ms()
    assert.equal(false, thread:join(0.05))
    assert(native.now_ms() - before < 4900)
    assert(eventually(function() return thread:traceback(1):find("sleeper:1") end))
    assert.equal(true, thread:join(60))
  end)

  it("gives its backtrace while it runs", function()
    local thread = assert(native.thread([[
      local native = require "seriatim.native"
      local stop = native.now_ms() + 5000
      local function busy()
        for i = 1, 1000 do
          tostring(i)
        end
      end
      while native.now_ms() < stop do
        busy()
      end
    ]], "=busy"))
    if has_jit then
      local text = thread:traceback(1)
      assert(text:find("busy:") or text:find("^no answer"), text)
    else
      eventually(function() return thread:traceback(1):find("busy:%d+: in.*busy:9") end)
    end
    assert.equal(true, thread:join(60))
  end)

  it("keeps its debug hook when it gives its backtrace", function()
    local name = os.tmpname()
    local thread = assert(native.thread([[
      if jit then
        jit.off() -- compiled code calls no hook
      end
      local counted = 0
      debug.sethook(function() counted = counted + 1 end, "", 100)
      local function busy()
        for i = 1, 10000 do
          tostring(i)
        end
      end
      repeat
        busy()
        local file = io.open(...)
      until not file or not file:close()
      local before = counted
      busy()
      assert(counted > before)
    ]], "=hooked", name))
    eventually(function() return thread:traceback(1):find("hooked:%d+: in") end)
    assert(os.remove(name))
    assert.same({ n = 2, true, nil }, { n = 2, thread:join(60) })
  end)

  if _VERSION == "Lua 5.4" then -- where each coroutine has a hook of its own
    it("keeps the debug hooks of its coroutines when one of them waits and it gives its backtrace", function()
      local frozen = RedisServer.start()
      frozen:signal "STOP"
      local thread = assert(native.thread([[
        local native = require "seriatim.native"
        local counted = { main = 0, other = 0 }
        local function count(name)
          return function() counted[name] = counted[name] + 1 end
        end
        local function goes_on(name)
          local before = counted[name]
          for i = 1, 10000 do
            tostring(i)
          end
          assert(counted[name] > before, name)
        end
        debug.sethook(count "main", "", 100)
        coroutine.wrap(function(url)
          debug.sethook(count "other", "", 100)
          local link = assert(native.link(url, "seriatim", "hooked", 0))
          assert(link:nodes())
          link:drive(2)
          goes_on "other"
        end)(...)
        goes_on "main"
      ]], "=hooked", frozen.url))
      local gave = pcall(eventually, function() return thread:traceback(1):find("in drive", 1, true) end, 20)
      local ended = { n = 2, thread:join(60) }
      frozen:signal "CONT"
      frozen:remove()
      assert.same({ { n = 2, true, nil }, true }, { ended, gave })
    end)
  end

  it("frees and reuses values of every size without mixing them", function()
    local thread = assert(native.thread([[
      local kept = {}
      for round = 1, 20 do
        for size = 1, 200 do
          local list, text = {}, ("x"):rep(size) .. round
          for place = 1, size do
            list[place] = size * place
          end
          kept[size] = { list = list, text = text, call = function() return text end, round = round }
        end
        for size = 1, 200, 3 do
          kept[size].list[size * 2], kept[size].more = -1, ("y"):rep(size)
        end
        collectgarbage()
        for size = 1, 200 do
          local one = kept[size]
          assert(one.text == ("x"):rep(size) .. round and one.call() == one.text and one.round == round)
          assert(one.more == nil or one.more == ("y"):rep(size))
          for place = 1, size do
            assert(one.list[place] == size * place)
          end
        end
      end
    ]], "=sizes"))
    assert.same({ n = 2, true, nil }, { n = 2, thread:join(60) })
  end)

  if _VERSION == "Lua 5.4" then
    it("has its own switch for warnings", function()
      local text, code = run [[
        local native = require "seriatim.native"
        native.thread("warn('not ', 'yet') warn '@on' warn('a', '@off', 'b') warn '@other' warn '@off' warn 'over'", "=warns"):join(60)
      ]]
      assert.same({ "Lua warning: a@offb\n", "0" }, { text, code })
    end)
  end

  it("F23 may outlive what started it", function()
    for _ = 1, 50 do
      native.thread("local t = {} for i = 1, 100 do t[i] = require('seriatim.native').dump({ i }, '') end", "=short")
    end
    collectgarbage()
    local text, code = run [[
      local native = require "seriatim.native"
      native.thread("require('seriatim.native').sleep(5)", "=long")
    ]]
    assert.same({ "", "0" }, { text, code })
  end)
end)

describe("a process", function()
  it("gets signals as words", function()
    local text, code = run [[
      local native = require "seriatim.native"
      io.stdout:setvbuf("no")
      assert(native.catch_signals { "TERM", "INT", "TTIN", "CHLD" })
      native.kill(native.getpid(), "TTIN")
      print(native.signal(60), (native.signal(0.01)))
      native.kill(native.getpid(), "TERM")
      print(native.signal(60))
      native.kill(native.getpid(), "INT") -- a second TERM within a second would be none
      print("still here")
    ]]
    assert.same({ "TTIN\tnil\nTERM\nseriatim: a second signal ended the process at once\n", "1" }, { text, code })
  end)

  it("ignores a second signal where it is told to", function()
    local text, code = run [[
      local native = require "seriatim.native"
      io.stdout:setvbuf("no")
      native.catch_signals({ "TERM" }, false)
      for i = 1, 3 do
        native.kill(native.getpid(), "TERM")
        print(native.signal(60))
      end
      native.exit(7)
    ]]
    assert.same({ "TERM\nTERM\nTERM\n", "7" }, { text, code })
  end)

  it("F20 is told of the second of two signals, where TERM within a second counts once and INT twice", function()
    local text = run [[
      local native = require "seriatim.native"
      io.stdout:setvbuf("no")
      native.catch_signals({ "TERM", "INT" }, "mark")
      for _, name in ipairs { "TERM", "TERM", "INT" } do
        native.kill(native.getpid(), name)
        print(native.signal(60))
      end
      native.exit(7)
    ]]
    assert.equal("TERM\nTERM\nINT\ttrue\n", text)
  end)

  if has_jit then -- whose FFI can fork
    it("F19 leaves a signal to the child that a fork made, which ends by it unless it catches signals itself", function()
      local text = run [[
        local native, ffi = require "seriatim.native", require "ffi"
        ffi.cdef "int fork(void);"
        io.stdout:setvbuf("no")
        local function catch()
          assert(native.catch_signals { "TERM", "HUP" })
        end
        local function end_of(child, name)
          native.kill(child, name)
          local pid, how, code
          repeat
            native.sleep(0.01)
            pid, how, code = native.reap()
          until pid == child
          print(how, code, (native.signal(0.1)))
        end
        catch()
        for _, name in ipairs { "TERM", "HUP" } do
          local child = ffi.C.fork()
          if child == 0 then
            native.sleep(5)
            native.exit(0)
          end
          end_of(child, name)
        end
        native.hold_signals(true) -- until the child catches it
        local child = ffi.C.fork()
        if child == 0 then
          catch()
          native.exit(native.signal(5) == "TERM" and 7 or 0)
        end
        native.hold_signals(false)
        end_of(child, "TERM")
        native.kill(native.getpid(), "TERM")
        print(native.signal(60))
      ]]
      assert.equal("signal\t15\tnil\nsignal\t1\tnil\nexit\t7\tnil\nTERM\n", text)
    end)
  end

  it("F20 waits on when a signal comes", function()
    local text = run [[
      local native = require "seriatim.native"
      native.catch_signals { "CHLD" }
      local before = native.now_ms()
      native.spawn { "true" }
      native.sleep(0.3)
      print(native.now_ms() - before >= 299, native.signal(60))
    ]]
    assert.equal("true\tCHLD\n", text)
  end)

  it("starts others, and they see its end", function()
    local pid = assert(native.spawn { "sh", "-c", "exit 3" })
    local found
    eventually(function()
      found = { native.reap() }
      return found[1]
    end)
    assert.same({ pid, "exit", 3 }, found)
    pid = assert(native.spawn { "sleep", "60" })
    assert(native.kill(pid, "KILL"))
    eventually(function()
      found = { native.reap() }
      return found[1]
    end)
    assert.same({ pid, "signal", 9 }, found)
    local none, kind, message = native.spawn { "/no/such/program" }
    assert.same({ n = 3, nil, "IO", "No such file or directory" }, { n = 3, none, kind, message })
    assert.equal(nil, (native.reap()))
    assert.equal(nil, (native.kill(pid, "TERM")))
    raises("no signal NONE", native.kill, pid, "NONE")
    local name, script = os.tmpname(), os.tmpname()
    local file = assert(io.open(script, "w"))
    file:write(("local n = require 'seriatim.native'; n.catch_signals { 'TERM' }; local said = n.signal(100, tonumber((...)))\n" ..
      "io.open(%q, 'w'):write(tostring(said)):close()"):format(name))
    file:close()
    run(("require('seriatim.native').spawn { %q, %q, '%%parent%%' }"):format(interpreter, script))
    eventually(function()
      local opened = assert(io.open(name))
      local said = opened:read("*a")
      opened:close()
      return said == "PARENT"
    end)
    os.remove(name)
    os.remove(script)
  end)
end)
