-- The connections of seriatim-lua web: a server with three places, which the spec drives itself, and whose clock stands still.

local native = require "seriatim.native"
local stand_alone = require "seriatim.web.stand_alone"

describe("the connections of seriatim-lua web", function()
  local now_ms, server, now, meanwhile

  before_each(function()
    now, now_ms = 0, native.now_ms
    native.now_ms = function() return now end
    local function app(request)
      if request.path == "/pop" then
        request.sleep(60)
      elseif request.path == "/long" then
        now = now + 20000
        meanwhile()
      end
      return { status = 200, headers = { ["X-Path"] = request.path }, body = "" }
    end
    server = stand_alone.new(assert(native.listen("127.0.0.1", 0)), app, nil, nil, 0, 3)
  end)

  after_each(function() native.now_ms = now_ms end)

  ---Each is opened a millisecond after the one before.
  local function connect()
    local visitor, socket = native.channel()
    now = now + 1
    server:add(socket)
    return visitor
  end

  ---The path that the answer names; nil: there is none yet.
  local function answer(visitor)
    for _ = 1, 5 do
      server:step(0)
    end
    return (visitor:receive() or ""):match("X%-Path: (%S+)")
  end

  ---Has the server closed it? It has a byte more otherwise.
  local function is_closed(visitor)
    return visitor:send("G", 1) == false
  end

  local function ask(visitor, path)
    now = now + 1
    visitor:send("GET " .. path .. " HTTP/1.1\r\nHost: localhost\r\n\r\n", 1)
    return answer(visitor)
  end

  local function idle(path)
    local visitor = connect()
    assert.equal(path, ask(visitor, path))
    return visitor
  end

  it("D9 give way, the one that has been idle for longest first, to a new one", function()
    local a, b, c = idle "/a", idle "/b", idle "/c"
    assert.equal("/again", ask(a, "/again"))
    assert.equal("/new", ask(connect(), "/new"))
    assert.is_true(is_closed(b))
    assert.same({ "/kept", "/kept" }, { ask(a, "/kept"), ask(c, "/kept") })
  end)

  it("D9 stay while a request is on its way or a pop waits, and another is idle", function()
    local slow, a = connect(), idle "/a"
    slow:send("GET /slow HTTP/1.1\r\n", 1)
    local waiting = connect()
    assert.is_nil(ask(waiting, "/pop"))
    assert.is_nil(answer(slow))
    local new = connect()
    assert.is_true(is_closed(a))
    slow:send("Host: localhost\r\n\r\n", 1)
    assert.equal("/slow", answer(slow))
    assert.equal("/new", ask(new, "/new"))
    now = now + 60000
    assert.equal("/pop", answer(waiting))
  end)

  it("keep their time while the server is busy with a request of another", function()
    local change, other = connect(), connect()
    change:send("POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n", 1)
    assert.is_nil(answer(change))
    meanwhile = function() change:send("{}", 1) end
    assert.equal("/long", ask(other, "/long"))
    assert.equal("/change", answer(change))
  end)

  it("go to the threads of consumers if they begin so, and to those of changes if they tell too little for a second", function()
    local changes, change_threads = native.channel()
    local consumers, consumer_threads = native.channel()
    server = stand_alone.new(assert(native.listen("127.0.0.1", 0)), error, changes, consumers, 0, 3)
    for text, threads in pairs {
      ["POST /api/v1/consume/ack HTTP/1.1\r\n"] = consumer_threads,
      ["POST /api/v1/consume"] = change_threads,
      ["POST /api/web/Web/delete HTTP/1.1\r\n"] = change_threads,
    } do
      connect():send(text, 1)
      for _ = 1, 3 do
        server:step(0)
        now = now + 1000
      end
      assert.equal(text, assert(threads:take(), text):receive())
    end
  end)

  it("are told that the dashboard is busy, if no thread of changes takes them for 10 s", function()
    local changes, threads = native.channel()
    server = stand_alone.new(assert(native.listen("127.0.0.1", 0)), error, changes, nil, 0, 300)
    local visitor
    for _ = 1, 299 do -- more than the channel holds
      visitor = connect()
      visitor:send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1)
      server:step(0)
    end
    now = now + 10000
    local text = ""
    for _ = 1, 5 do
      server:step(0)
      text = text .. (visitor:receive() or "")
    end
    assert.matches("^HTTP/1.1 503 ", text)
    assert.matches('{"done":0,"error":"the dashboard is busy; nothing was changed","unknown":false}$', text)
    assert.is_truthy(threads)
  end)
end)
