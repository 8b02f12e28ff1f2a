-- Storms of the collector: a cycle at every few instructions while each type of the C module is made, used and dropped.

local RedisServer = require "support.redis_server"
local figures = require "support.figures"
local native = require "seriatim.native"

local NAMESPACE = "collect spec"

describe("a storm of the collector", function()
  local redis

  setup(function() redis = RedisServer.start() end)
  teardown(function() redis:remove() end)

  local function settings()
    return { queue_name = "q" .. math.random(3), shards_count = 2, batch_size = 10 }
  end

  local function node_settings()
    return { url = redis.url, namespace = NAMESPACE, name = "spec", id = "n" .. native.random_hex(8), description = "spec",
      lease_ms = 10000, poll_ms = 50, threads = 2, scheduler = 0 }
  end

  local function rows()
    return { { "a", native.dump({ math.random(), { n = "x" } }, "payload"), false, 0, 0, -1, false, '{"k":"v"}' } }
  end

  local TYPES = {}

  function TYPES.json()
    assert(native.load(native.dump({ a = { 1, "é", { b = {} } }, n = native.null }, "x")).a[3])
    assert(not native.load '{"a":[1,{"b":"\\u00e9')
    assert(not pcall(native.dump, { a = { {}, print } }, "x"))
  end

  function TYPES.link()
    local link = assert(native.link(redis.url, NAMESPACE, "spec", 0))
    assert(link:push(link:queue(settings()), rows(), 0, 1))
    if math.random(2) == 1 then
      assert(link:drive(60))
    end
  end

  function TYPES.client()
    local client = assert(native.client(NAMESPACE, "spec", 0))
    client:push(client:queue(settings()), rows())
    client:connected(nil, nil, 0)
    client:sent(#client:output())
    pcall(client.input, client, "nonsense\r\n")
  end

  function TYPES.sentinel()
    local sentinel = assert(native.sentinel "redis+sentinel://127.0.0.1:1,h:2/mine")
    sentinel:begin()
    assert(sentinel:next())
    assert(#sentinel:output() > 0 and sentinel:input("*2\r\n") == "again")
    sentinel:failed("no")
    assert(sentinel:next() == "h")
  end

  function TYPES.runner()
    local runner = assert(native.runner(node_settings()))
    runner:worker { queue_name = "q1", shards_count = 2, batch_size = 10 }
    assert(runner:start())
    local other = native.runner_of(runner:handle())
    runner = nil
    other:pulse()
    local delivery = other:take(0, 0.1)
    if delivery then
      delivery:payloads_by_id()
      delivery:job(1)
      if math.random(2) == 1 then
        delivery:done_all()
        delivery:settle()
      end
    end
    while other:event() do end
    other:candidates(0, 10)
  end

  function TYPES.node()
    local node = assert(native.node(node_settings()))
    node:worker(settings())
    assert(node:start())
    node:connected(1, nil, nil, 0)
    node:tick()
    assert(#node:output(1) > 0)
    pcall(node.input, node, 1, "+OK\r\n")
  end

  function TYPES.thread()
    local thread = assert(native.thread("local t = {} for i = 1, 50 do t[i] = { ... } end", "=storm", "x", 1, true))
    if math.random(2) == 1 then
      assert(thread:join(60))
    end
  end

  function TYPES.url()
    assert(native.parse_url("rediss://me:p%40ss@h:7/3").password == "p@ss")
    assert(not native.parse_url("http://h"))
    native.split(24, 2, 1, 5)
  end

  ---A full cycle after every `count` instructions of Lua, without a pause in between.
  local function storm(work)
    local pause, speed = collectgarbage("setpause", 0), collectgarbage("setstepmul", 10000)
    debug.sethook(function() collectgarbage() end, "", 23)
    local ran, err = pcall(work)
    debug.sethook()
    collectgarbage("setpause", pause)
    collectgarbage("setstepmul", speed)
    assert(ran, err)
  end

  for name, use in pairs(TYPES) do
    it("spares what is used: " .. name, function()
      local times = figures.count(name == "runner" and 3 or 20, name == "runner" and 60 or 500)
      storm(function()
        for _ = 1, times do
          use()
        end
      end)
      if math.type then -- Lua 5.4 has another collector, too
        collectgarbage("generational")
        for _ = 1, times do
          use()
        end
        collectgarbage("incremental")
      end
      collectgarbage()
      collectgarbage()
    end)
  end
end)
