-- The dashboard, its API and the metrics, as a function and as seriatim-lua web.

local browser = require "support.browser"
local command = require "support.command"
local jobs = require "support.jobs"
local log = require "seriatim.log"
local native = require "seriatim.native"
local redis_server = require "support.redis_server"
local seriatim = require "seriatim"
local suite = require "support.suite"
local web = require "seriatim.web"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

local ask, get, post, ids = browser.ask, browser.get, browser.post, jobs.ids

local CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
  .. "form-action 'self'; frame-ancestors 'none'"
local QUERY = "?id=a&q=a&queue=Web&span=1h&part=dead&by=id" -- what a route may need beside its path

local function dashboard(options)
  local given = { prefix = "/jobs" }
  for name, value in pairs(options or {}) do
    given[name] = value
  end
  return web.new(given)
end

local function queue()
  return jobs.worker("Web", function(payloads_by_id)
    if payloads_by_id.dead then
      error("broken SECRET-4711", 0)
    end
  end, { shards_count = 2, max_retry_count = 0 })
end

---Two that wait, one that waits for later, one dead.
local function fill()
  local worker = queue()
  assert(worker:perform_async { { id = "dead", payload = { card = "SECRET-1" } } })
  jobs.serve(worker)
  jobs.eventually(function() return worker:metrics().morgue_length == 1 end)
  jobs.stop_servers()
  assert(worker:perform_async {
    { id = "a", payload = "SECRET-2" }, { id = "b", payload = 2 }, { id = "later", payload = "SECRET-3", delay = 600 },
  })
  return worker
end

local function figures(worker)
  local all, chosen = assert(worker:metrics()), {}
  for _, name in ipairs { "length", "fresh", "retries", "morgue_length", "parked", "paused" } do
    chosen[name] = all[name]
  end
  return chosen
end

local function safe(answer)
  assert.equal(CSP, answer:field("Content-Security-Policy"))
  assert.equal("nosniff", answer:field("X-Content-Type-Options"))
  assert.equal("DENY", answer:field("X-Frame-Options"))
  assert.equal("no-referrer", answer:field("Referrer-Policy"))
  return answer
end

---What is logged meanwhile.
local function logged(called)
  local lines, output = {}, log.output
  log.output = function(line) lines[#lines + 1] = line end
  local ran, raised = pcall(called)
  log.output = output
  assert(ran, raised)
  return table.concat(lines, "\n")
end

local function sorted(list)
  table.sort(list)
  return list
end

describe("seriatim.web answers", function()
  it("R-WEB-1: with the page, its files and itself under any prefix, and every unknown path as the page", function()
    local app = dashboard()
    local moved = safe(get(app, "/jobs"))
    assert.same({ 308, "/jobs/" }, { moved.status, moved:field("Location") })
    for _, path in ipairs { "/jobs/", "/jobs/queues/Web", "/jobs/any/thing" } do
      local page = safe(get(app, path))
      assert.same({ 200, "text/html; charset=utf-8" }, { page.status, page:field("Content-Type") })
      local count, depth = 0, select(2, path:gsub("/", "")) - 2
      for file in page.body:gmatch('[sh]re?[cf]="([^"]+)"') do
        assert.equal(("../"):rep(depth) .. "assets/", file:match("^[./]*assets/"))
        local answer = safe(get(app, "/jobs/" .. file:match("assets/.*")))
        assert.same({ file, 200, "public, max-age=86400" }, { file, answer.status, answer:field("Cache-Control") })
        count = count + 1
      end
      assert.is_true(count > 0)
    end
    assert.equal(200, get(web.new(), "/").status)
    for _, path in ipairs { "/jobs/api/nothing", "/other/api/v1/stats", "/jobsapi/v1/stats", "/" } do
      local answer = safe(get(app, path))
      assert.same({ path, 404, { error = "not found" } }, { path, answer.status, answer:json() })
    end
  end)

  it("R-WEB-2: by a worker's name as by its queue's", function()
    local named = seriatim.worker { name = "WQ", queue_name = "other queue" }
    assert(named:perform_async { { id = 1 } })
    local app = dashboard()
    assert.same({ "WQ" }, jobs.keys(get(app, "/jobs/api/v1/stats"):json().by_worker))
    for _, name in ipairs { "WQ", "other%20queue" } do
      assert.equal("1", get(app, "/jobs/api/web/" .. name .. "/range_by_id"):json()[1].id)
    end
    assert.equal(404, get(app, "/jobs/api/web/QW/range_by_id").status)
  end)

  it("R-WEB-3: with the figures", function()
    fill()
    local stats = get(dashboard(), "/jobs/api/v1/stats"):json()
    assert.same({ 3, 1 }, { stats.total.length, stats.total.morgue_length })
    assert.same({ "lag", "length", "morgue_length" }, jobs.keys(stats.by_worker.Web))
    local board = get(dashboard(), "/jobs/api/web/dashboard"):json()
    local expected = { name = "Web", enqueued = 3, fresh = 3, retries = 0, dead = 1, busy = 0, processed = 0, failed = 1 }
    assert.is_true(jobs.includes(board.queues[1], expected))
    for _, name in ipairs {
      "url", "version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human",
    } do
      assert.is_not_nil(board.redis_info[name])
    end
    assert.is_true(jobs.includes(board, { title = "Seriatim", read_only = false, role = "admin" }))
  end)

  it("R-WEB-4: with records by each index, up and down", function()
    fill()
    local app = dashboard()
    local function found(path) return ids(get(app, "/jobs/api/web/Web/" .. path):json()) end
    assert.same({ "a", "b", "later" }, found "range_by_id?min=%5Ba&max=(z")
    assert.same({ "later", "b", "a" }, found "rev_range_by_id?min=-&max=%2B")
    assert.equal("later", found("range_by_perform_in")[3])
    assert.equal("later", found("rev_range_by_perform_in")[1])
    assert.same({ "a", "b", "later" }, sorted(found "range_by_retry_count?min=-1&max=-1"))
    assert.same({}, found "rev_range_by_retry_count?min=0")
    for _, name in ipairs {
      "morgue_range_by_id", "morgue_rev_range_by_id", "morgue_range_by_updated_at", "morgue_rev_range_by_updated_at",
    } do
      assert.same({ "dead" }, found(name))
    end
    assert.same({}, found "processing_data")
    local record = get(app, "/jobs/api/web/Web/range_by_id"):json()[1]
    assert.same({ "a", -1, '"SECRET-2"' }, { record.id, record.retry_count, record.payloads[1][1] })
    assert.equal("broken SECRET-4711", get(app, "/jobs/api/web/Web/morgue_range_by_id"):json()[1].error)
  end)

  it("R-WEB-5: with the outcome of an action", function()
    local worker, app = fill(), dashboard()
    local function counted(path, body)
      local answer = safe(post(app, "/jobs/api/web/Web/" .. path, body))
      assert.equal(200, answer.status)
      return answer:json().count
    end
    assert.equal(1, counted("morgue_queue_up", { ids = { "dead", "none" } }))
    assert.equal(1, counted("park", { ids = { "a" } }))
    assert.is_true(jobs.includes(figures(worker), { morgue_length = 0, parked = 1 }))
    assert.equal(1, counted("unpark", { ids = { "a" } }))
    assert.same({ 2, 2 }, { counted "pause", counted "resume" })
    counted "perform_all_jobs_now"
    assert.equal(1, counted("delete", { ids = { "b" } }))
    assert.same({ "a", "dead", "later" }, sorted(ids(worker.queries:range_by_id("-", "+"))))
  end)

  it("every route that reads, and changes nothing by it", function()
    local worker, app, count = fill(), dashboard(), 0
    local before = figures(worker)
    for _, route in ipairs(browser.routes("Web")) do
      if not route.mutates then
        count = count + 1
        local answer = safe(get(app, "/jobs" .. route.path .. QUERY))
        assert.same({ route.name, 200, "no-store" }, { route.name, answer.status, answer:field("Cache-Control") })
        local head = safe(ask(app, "HEAD", "/jobs" .. route.path .. QUERY))
        assert.same({ route.name, 200, "" }, { route.name, head.status, head.body })
      end
    end
    assert.is_true(count >= 13)
    assert.same(before, figures(worker))
  end)

  it("R-WEB-9: unknown queues, invalid bounds, long bodies and odd methods with refusals", function()
    fill()
    local app = dashboard()
    assert.equal(404, get(app, "/jobs/api/web/None/range_by_id").status)
    assert.equal(404, post(app, "/jobs/api/web/None/pause").status)
    local bad = get(app, "/jobs/api/web/Web/range_by_perform_in?min=x")
    assert.equal(400, bad.status)
    assert.matches("min", bad:json().error)
    assert.equal(413, post(app, "/jobs/api/web/Web/delete", { ids = { ("x"):rep(1100000) } }).status)
    assert.equal(400, post(app, "/jobs/api/web/Web/delete", "nonsense").status)
    for _, method in ipairs { "DELETE", "", "GET\0x", "get" } do
      assert.equal(405, ask(app, method, "/jobs/api/web/Web/delete").status)
    end
  end)

  it("R-WEB-10: with bytes that are no UTF-8, and takes them back", function()
    local bytes = jobs.worker("Bytes", nil, { codec = { tostring, tostring } })
    assert(bytes:perform_async { { id = "\255\0", payload = "\254\128" } })
    local record = get(dashboard(), "/jobs/api/web/Bytes/range_by_id"):json()[1]
    assert.same({ { base64 = "/wA=" }, { base64 = "/oA=" } }, { record.id, record.payloads[1][1] })
    assert.same({ count = 1 }, post(dashboard(), "/jobs/api/web/Bytes/delete", { ids = { record.id } }):json())
  end)

  it("for queues of any name", function()
    local odd = jobs.worker("a/b c%2F\195\169:{x}")
    assert(odd:perform_async { { id = 1 } })
    local path = "/jobs/api/web/" .. browser.encoded(odd.queue_name) .. "/range_by_id"
    assert.equal(1, #get(dashboard(), path):json())
  end)
end)

describe("seriatim.web lets", function()
  it("D2 each role do what it may; what is refused changes nothing", function()
    local worker = fill()
    local before = figures(worker)
    for _, route in ipairs(browser.routes("Web")) do
      for number, word in ipairs { false, "viewer", "operator" } do
        if number - 1 < route.role then
          local app = dashboard { role = function() return word or nil end }
          local answer = safe((route.mutates and post or get)(app, "/jobs" .. route.path))
          assert.same({ route.name, word, word and 403 or 401 }, { route.name, word, answer.status })
        end
      end
    end
    assert.same(before, figures(worker))
    assert.equal(401, get(dashboard { role = function() end }, "/jobs/").status)
    local by_field = dashboard { role = function(request) return request.headers["X-Role"] end }
    assert.equal(200, post(by_field, "/jobs/api/web/Web/pause", nil, { ["X-Role"] = "operator" }).status)
  end)

  it("D2 nobody in without the token", function()
    fill()
    local app = dashboard { token = "right" }
    for _, route in ipairs(browser.routes("Web")) do
      for _, given in ipairs { false, "Bearer wrong", "Bearer right ", "Basic right", "Bearer" } do
        local answer = (route.mutates and post or get)(app, "/jobs" .. route.path, route.mutates and {} or { Authorization = given },
          { Authorization = given })
        assert.is_true(route.role == 0 or answer.status == 401, route.name)
      end
    end
    assert.equal(200, get(app, "/jobs/api/v1/stats", { authorization = "Bearer right" }).status)
  end)

  it("D2 nobody change anything where it is read-only", function()
    local worker, app = fill(), dashboard { read_only = true }
    local before = figures(worker)
    for _, route in ipairs(browser.routes("Web")) do
      if route.mutates then
        assert.same({ route.name, 403 }, { route.name, post(app, "/jobs" .. route.path).status })
      end
    end
    assert.same(before, figures(worker))
    assert.is_true(get(app, "/jobs/api/web/dashboard"):json().read_only)
  end)

  it("D5 only its own pages change anything", function()
    local worker, app = fill(), dashboard()
    local before = figures(worker)
    local bad = {
      { ["Sec-Fetch-Site"] = "cross-site" }, { ["Sec-Fetch-Site"] = "same-site" }, { ["Sec-Fetch-Site"] = "none" },
      { ["Sec-Fetch-Site"] = false }, { ["Sec-Fetch-Site"] = false, Origin = "http://evil.example" },
      { ["Sec-Fetch-Site"] = false, Origin = "null" }, { ["Sec-Fetch-Site"] = "cross-site", Origin = "http://example.org" },
      { ["sec-fetch-site"] = "cross-site" }, { ["Sec-Fetch-Site"] = { "same-origin", "cross-site" } },
      { ["Content-Type"] = "application/x-www-form-urlencoded", ["Sec-Fetch-Site"] = "cross-site" },
    }
    for _, route in ipairs(browser.routes("Web")) do
      if route.mutates then
        for place, headers in ipairs(bad) do
          assert.same({ route.name, place, 403 }, { route.name, place, post(app, "/jobs" .. route.path, nil, headers).status })
        end
        for _, kind in ipairs { "text/plain", false } do
          assert.same({ route.name, 415 }, { route.name, post(app, "/jobs" .. route.path, nil, { ["Content-Type"] = kind }).status })
        end
        assert.same({ route.name, 405 }, { route.name, get(app, "/jobs" .. route.path).status })
      end
    end
    assert.same(before, figures(worker))
    local own = { ["Sec-Fetch-Site"] = false, Host = "jobs.example:81", Origin = "http://jobs.example:81" }
    assert.equal(200, post(app, "/jobs/api/web/Web/pause", nil, own).status)
    own["Content-Type"] = "application/json"
    own["Sec-Fetch-Site"] = nil
    assert.equal(403, ask(app, "POST", "/jobs/api/web/Web/pause", "{}", { headers = own, secure = true }).status)
  end)

  it("D6 in by the hosts that it was given", function()
    local app = dashboard { hosts = { "localhost", "jobs.example:81" } }
    local expected = {
      localhost = 200, ["localhost:9292"] = 200, ["jobs.example:81"] = 200, ["jobs.example"] = 403, ["evil.example"] = 403,
      ["localhost.evil.example"] = 403,
    }
    for host, status in pairs(expected) do
      assert.same({ host, status }, { host, get(app, "/jobs/api/v1/stats", { Host = host }).status })
    end
    assert.equal(403, get(app, "/jobs/api/v1/stats", { Host = { "localhost", "evil.example" } }).status)
  end)
end)

describe("seriatim.web", function()
  it("D4 repeats nothing of a request", function()
    local mark = "xss\"'><script>alert(1)</script>"
    local coded, app = browser.encoded(mark), dashboard()
    for _, path in ipairs {
      "/", "/" .. coded, "/api/" .. coded, "/api/web/" .. coded .. "/range_by_id", "/api/v1/stats?" .. coded .. "=" .. coded,
      "/assets/" .. coded .. "/" .. coded, "/" .. mark, "/assets/../" .. mark,
    } do
      local answer = safe(get(app, "/jobs" .. path, { Host = mark, Referer = mark, Origin = mark, ["X-Forwarded-Host"] = mark }))
      local all = answer.body .. table.concat({ answer:field("Location") or "" })
      assert.is_nil(all:find("xss") or all:find("alert(1)", 1, true))
    end
  end)

  it("D8 hands ids and bounds over as they are", function()
    local worker, app = queue(), dashboard()
    local evil = "\r\n*1\r\n$8\r\nFLUSHALL\r\n"
    assert(worker:perform_async { { id = evil }, { id = "a" } })
    assert.same({ count = 1 }, post(app, "/jobs/api/web/Web/park", { ids = { evil, "+", "-", "(a", "[a" } }):json())
    for _, bound in ipairs { evil, "+", "-", "(", "[", "[a", "(a", "\27[31m", "\226\128\168" } do
      for _, name in ipairs { "range_by_id", "rev_range_by_id", "range_by_perform_in", "morgue_range_by_id" } do
        local answer = get(app, ("/jobs/api/web/Web/%s?min=%s"):format(name, browser.encoded(bound)))
        assert.is_true(answer.status == 200 or answer.status == 400)
      end
    end
    assert.equal(2, worker:metrics().length + worker:metrics().parked)
  end)

  it("D10 shows of payloads and errors what the redaction lets through, on every route", function()
    fill()
    local seen = {}
    local app = dashboard {
      redact = function(name, id, text)
        seen[name .. " " .. id] = true
        return (text:gsub("SECRET%-%d+", "*"))
      end,
    }
    for _, route in ipairs(browser.routes("Web")) do
      if not route.mutates then
        local body = get(app, "/jobs" .. route.path .. QUERY).body
        assert.is_nil(body:find("SECRET"), route.name)
      end
    end
    assert.is_not_nil(get(app, "/jobs/api/web/Web/range_by_id").body:find('\\"*\\"', 1, true))
    assert.same({ true, true }, { seen["Web a"], seen["Web dead"] })
  end)

  it("D10 shows nothing when the redaction fails", function()
    fill()
    local text = logged(function()
      for _, redact in ipairs {
        function() error("boom") end, function() end, function() return 1 end, function() error(nil) end, coroutine.yield,
        function() return seriatim.reset_settings() or get(dashboard(), "/jobs/api/web/Web/range_by_id") end,
      } do
        local answer = safe(get(dashboard { redact = redact }, "/jobs/api/web/Web/range_by_id"))
        assert.same({ 500, { error = "internal error" } }, { answer.status, answer:json() })
        seriatim.redis = suite.redis.url
      end
    end)
    assert.matches("boom", text)
    assert.equal(200, get(dashboard(), "/jobs/api/web/Web/range_by_id").status)
  end)

  it("R-WEB-21: shows and groups stored errors by what load_error gives, and changes the ids of one group", function()
    seriatim.dump_error, seriatim.load_error = string.reverse, string.reverse
    local worker = fill()
    local app = dashboard()
    local record = get(app, "/jobs/api/v1/queues/Web/records?part=dead"):json().records[1]
    assert.matches("^broken SECRET%-4711", record.error)
    assert.matches("^broken SECRET%-4711", get(app, "/jobs/api/v1/queues/Web/id?id=dead"):json().dead.error)
    local group = get(app, "/jobs/api/v1/queues/Web/errors"):json().groups[1]
    assert.same({ 1, "broken SECRET-4711", { "dead" } }, { group.count, group.error, group.ids })
    local hidden = get(dashboard { redact = function(_, _, text) return (text:gsub("SECRET", "*")) end }, "/jobs/api/v1/queues/Web/errors")
    assert.equal("broken *-4711", hidden:json().groups[1].error)
    local changed = post(app, "/jobs/api/v1/queues/Web/errors/" .. group.fingerprint .. "/delete", {})
    assert.same({ 1, false }, { changed:json().count, changed:json().more })
    assert.equal(0, worker:metrics().morgue_length)
  end)

  it("R-WEB-21: says why load_error cannot read an error, and shows what is text as it is stored", function()
    fill()
    for _, case in ipairs {
      { function() error("cannot load", 0) end, "raised cannot load" }, { function() return 5 end, "gave no string but number" },
      { coroutine.yield, "raised attempt to yield" },
    } do
      seriatim.load_error = case[1]
      local group = safe(get(dashboard(), "/jobs/api/v1/queues/Web/errors")):json().groups[1]
      assert.equal("(load_error " .. case[2], group.error:sub(1, 12 + #case[2]))
      local text = get(dashboard(), "/jobs/api/v1/queues/Web/id?id=dead"):json().dead.error
      assert.matches("; the error is shown as it is stored%)\nbroken SECRET%-4711", text)
    end
  end)

  it("R-WEB-21: shows only why load_error cannot read an error that is no text", function()
    seriatim.dump_error = function(text) return text .. "\255" end
    fill()
    seriatim.load_error = function() error("cannot load", 0) end
    local group = get(dashboard(), "/jobs/api/v1/queues/Web/errors"):json().groups[1]
    assert.equal("(load_error raised cannot load; the stored error is no text)", group.error)
  end)

  it("says 500 and no more when the role cannot be told, and lets nobody in", function()
    local text = logged(function()
      local wrong = { function() error("secret") end, function() return "root" end, function() return 1 end, function() return false end }
      for _, role in ipairs(wrong) do
        local answer = safe(get(dashboard { role = role }, "/jobs/api/v1/stats"))
        assert.same({ 500, '{"error":"internal error"}' }, { answer.status, answer.body })
      end
    end)
    assert.matches("secret", text)
    for _, given in ipairs { "'root' %(string%)", "false %(boolean%)" } do
      assert.matches("role's result must be viewer, operator, admin, consumer or nil, not " .. given, text)
    end
  end)

  it("F15 answers 503 without Redis, serves the page, and goes on when it is back", function()
    local redis = redis_server.start()
    seriatim.redis = redis.url
    assert.equal(200, get(dashboard(), "/jobs/api/v1/stats").status)
    redis:stop()
    local answer = safe(get(dashboard(), "/jobs/api/v1/stats"))
    assert.equal(503, answer.status)
    assert.matches("Redis", answer:json().error)
    assert.equal(200, get(dashboard(), "/jobs/").status)
    redis:begin()
    jobs.eventually(function() return get(dashboard(), "/jobs/api/v1/stats").status == 200 end)
    redis:remove()
  end)

  it("answers 503 while Redis says nothing, and where there is no connection to begin with", function()
    os.execute("kill -STOP " .. suite.redis.pid)
    local answer = get(dashboard(), "/jobs/api/v1/stats")
    os.execute("kill -CONT " .. suite.redis.pid)
    assert.equal(503, answer.status)
    local pool = require "seriatim.client.pool"
    local ask_pool = pool.ask
    pool.ask = function() return nil, require("seriatim.errors").new("AUTH", "no") end
    local alone, page = get(dashboard(), "/jobs/api/v1/stats"), get(dashboard(), "/jobs/")
    pool.ask = ask_pool
    assert.same({ 503, 200 }, { safe(alone).status, safe(page).status })
  end)

  it("answers Prometheus, and whether this process and Redis work", function()
    fill()
    local figures_text = get(dashboard(), "/jobs/metrics")
    assert.matches('seriatim_dead{queue="Web"} 1', figures_text.body)
    assert.same({ 200, 200 }, { get(dashboard(), "/jobs/livez").status, get(dashboard { token = "x" }, "/jobs/livez").status })
    assert.equal(200, get(dashboard(), "/jobs/readyz").status)
    local unasked = dashboard { role = function() error("the database is away") end }
    assert.same({ 200, 200, 500 }, {
      get(unasked, "/jobs/livez").status, get(unasked, "/jobs/readyz").status, get(unasked, "/jobs/api/v1/stats").status,
    })
    web.stalled = function() return "the worker loop is gone" end
    local stalled = get(dashboard(), "/jobs/livez")
    web.stalled = nil
    assert.equal(503, stalled.status)
  end)

  it("D13 reports each change and each refusal to the host, with the request that asked for it", function()
    local worker, told = fill(), {}
    local evil = "a\nINFO forged\27[2J"
    assert(worker:perform_async { { id = evil } })
    local app = dashboard {
      role = function(request) return request.headers["X-Role"] end,
      audit = function(request, change) told[#told + 1] = { request.headers["X-User"] or "", change } end,
    }
    local function asked(path, body, headers) post(app, "/jobs/api/" .. path, body, headers) end
    asked("web/Web/delete", { ids = { "b", "none", evil, { base64 = "/w==" } } }, { ["X-Role"] = "admin", ["X-User"] = "ada" })
    asked("web/Web/delete", { ids = { "a" } }, { ["X-Role"] = "viewer", ["X-User"] = "bob" })
    asked("web/Web/pause", {}, { ["X-Role"] = "operator", ["Sec-Fetch-Site"] = "cross-site" })
    asked("v1/nodes/gone/quiet", {}, { ["X-Role"] = "operator" })
    asked("web/Web/pause", {}, {})
    get(app, "/jobs/api/v1/stats", { ["X-Role"] = "viewer" })
    local named = { "b", "none", evil, "\255" }
    assert.same({
      { "ada", { action = "delete", role = "admin", queue = "Web", ids = named, count = 2, status = 200 } },
      { "bob", { action = "delete", role = "viewer", queue = "Web", status = 403, error = "this needs the role admin" } },
      { "", { action = "pause", role = "operator", queue = "Web", status = 403, error = "the request comes from another site" } },
      { "", { action = "quiet_node", role = "operator", node = "gone", status = 404, error = "no such node is alive" } },
      { "", { action = "pause", role = "nobody", queue = "Web", status = 401, error = "you are not signed in" } },
    }, told)
  end)

  it("D13 writes a line that no id can break where there is no audit, and one with what an audit raised", function()
    local worker = fill()
    local text = logged(function() post(dashboard(), "/jobs/api/web/Web/delete", { ids = { "a\nINFO forged\27[2J" } }) end)
    assert.matches('^INFO %S+ pid=%d+ tid=%S+ web delete by admin: queue "Web", id "a\\u000aINFO forged\\u001b%[2J": count 0$', text)
    for _, audit in ipairs { function() error("boom") end, function() error(nil) end } do
      text = logged(function()
        assert.equal(200, post(dashboard { audit = audit }, "/jobs/api/web/Web/park", { ids = { "a" } }).status)
      end)
      assert.matches('^ERROR .* web audit raised .* at: park by admin: queue "Web", id "a": count %d$', text)
    end
    assert.equal(1, worker:metrics().parked)
  end)

  it("D13 reports a change that Redis did not answer", function()
    fill()
    local told = {}
    local app = dashboard { audit = function(_, change) told[#told + 1] = change end }
    local pool = require "seriatim.client.pool"
    local ask_pool = pool.ask
    pool.ask = function() return nil, require("seriatim.errors").new("IO", "no") end
    post(app, "/jobs/api/web/Web/pause")
    pool.ask = ask_pool
    assert.same({ 503, "pause", nil }, { told[1].status, told[1].action, told[1].count })
  end)

  it("checks its options", function()
    local wrong = { title = 1, role = 1, redact = "x", audit = 1, hosts = "localhost", token = "", read_only = 1, prefix = "jobs/" }
    for name, value in pairs(wrong) do
      suite.raises(name .. " must be", function() web.new { [name] = value } end)
    end
    web.new { token = ("x"):rep(1024) }
    suite.raises("token must be a text of 1 to 1024 bytes", function() web.new { token = ("x"):rep(1025) } end)
    suite.raises("unknown option 'nothing'", function() web.new { nothing = 1 } end)
    for _, prefix in ipairs { "//evil.example", "/a\r\nX-Evil: 1", "/jobs/", "/<b>" } do
      suite.raises("prefix must be", function() web.new { prefix = prefix } end)
    end
  end)

  it("keeps nothing of what it answered", function()
    fill()
    local app = dashboard { redact = function(_, _, text) return text .. "!" end }
    local function used()
      for _ = 1, 200 do
        get(app, "/jobs/api/web/Web/range_by_id")
      end
      collectgarbage()
      collectgarbage()
      return collectgarbage("count")
    end
    -- Tables and caches reach their sizes after some rounds; only a leak grows in each of them.
    local before, after = nil, used()
    for _ = 1, 6 do
      before, after = after, used()
      if after < before + 50 then return end
    end
    error(("%.1f KiB before the sixth round, %.1f after it"):format(before, after))
  end)
end)

describe("seriatim-lua web", function()
  local shell

  before_each(function() shell = command.shell(suite.redis.url) end)
  after_each(function() shell:remove() end)

  ---The running command and its port, or unix:PATH. words: its arguments, and as fields what Shell:start takes.
  local function started(words)
    words.wait = false
    table.insert(words, 1, "web")
    local running = shell:start(words)
    running:wait_for("the dashboard is at %S+\n")
    local address = running:log():match("the dashboard is at (%S+)")
    return running, address:match("^http://.*:(%d+)/$") or address
  end

  local function served(...)
    return started { ... }
  end

  local function line(where, bytes)
    return browser.exchange(where, bytes):match("^[^\r\n]*")
  end

  local CLOSE = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

  it("D2 D6 serves loopback, its hosts alone, and stops by a signal", function()
    assert(queue():perform_async { { id = 1 } })
    local running, port = served("--port", "0")
    local answer = browser.exchange(port, "GET /api/v1/stats" .. CLOSE .. "\r\n")
    assert.matches("^HTTP/1.1 200 OK\r\n", answer)
    assert.equal(1, native.load(answer:match("\r\n\r\n(.*)")).total.length)
    assert.equal("HTTP/1.1 403 Forbidden", line(port, "GET /api/v1/stats HTTP/1.0\r\nHost: evil.example\r\n\r\n"))
    local two = browser.exchange(port, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez" .. CLOSE .. "\r\n")
    assert.equal(2, select(2, two:gsub("HTTP/1.1 200 OK", "")))
    local body = '{"ids":["1"]}'
    local fields = "Content-Type: application/json\r\nSec-Fetch-Site: same-origin\r\nContent-Length: " .. #body .. "\r\n\r\n"
    assert.matches('{"count":1}$', browser.exchange(port, "POST /api/web/Web/park" .. CLOSE .. fields .. body))
    assert.equal(0, running:stop("TERM", 10))
  end)

  it("reads stored errors as the application of -r does", function()
    fill()
    shell:write("app.lua", [[require("seriatim").load_error = function(stored) return "loaded: " .. stored end]])
    local running, port = served("--port", "0", "-r", shell.folder .. "/app.lua")
    assert.matches('"loaded: [^"]*broken', browser.exchange(port, "GET /api/v1/queues/Web/errors" .. CLOSE .. "\r\n"))
    assert.equal(0, running:stop("TERM", 10))
  end)

  it("finds a queue by the name of a worker that the application names and has not loaded", function()
    fill()
    shell:write("named.lua", [[return require("seriatim").worker { name = "Named", queue_name = "Web" }]])
    shell:write("app.lua", [[require("seriatim").workers = { "named" }]])
    local running, port = served("--port", "0", "-r", "app")
    assert.matches('"by_worker":{"Named":', browser.exchange(port, "GET /api/v1/stats" .. CLOSE .. "\r\n"), 1, true)
    assert.equal("HTTP/1.1 200 OK", line(port, "GET /api/web/Named/range_by_id" .. CLOSE .. "\r\n"))
    assert.equal(0, running:stop("TERM", 10))
  end)

  it("D2 refuses other addresses without a token", function()
    for _, words in ipairs { { "0.0.0.0" }, { "::" }, { "127.evil.example" }, { "0" } } do
      local text, code = shell:run("web", "--port", "0", "--bind", words[1])
      assert.equal(2, code)
      assert.matches("is not a loopback address: other machines could reach the dashboard; set SERIATIM_WEB_TOKEN or %-%-token", text)
    end
    assert.equal(2, select(2, shell:run("web", "--port", "65536")))
    assert.equal(2, select(2, shell:run("web", "--port", "1", "--bind", "unix:" .. shell.folder .. "/s")))
    local running, port = served("--port", "0", "--bind", "0.0.0.0", "--token", "right")
    assert.equal("HTTP/1.1 401 Unauthorized", line(port, "GET /api/v1/stats" .. CLOSE .. "\r\n"))
    assert.equal("HTTP/1.1 200 OK", line(port, "GET /api/v1/stats" .. CLOSE .. "Authorization: Bearer right\r\n\r\n"))
    assert.equal(0, running:stop("INT", 10))
  end)

  it("D2 takes the token of a variable, which other users cannot see, unless --token is given", function()
    local function statuses(words, tokens)
      local running, port = started(words)
      for place, token in ipairs(tokens) do
        tokens[place] = line(port, "GET /api/v1/stats" .. CLOSE .. "Authorization: Bearer " .. token .. "\r\n\r\n"):match " (%d+) "
      end
      assert.equal(0, running:stop("INT", 10))
      return tokens
    end
    local env = { SERIATIM_WEB_TOKEN = "right" }
    assert.same({ "401", "200" }, statuses({ "--port", "0", "--bind", "0.0.0.0", env = env }, { "other", "right" }))
    assert.same({ "401", "200" }, statuses({ "--port", "0", "--token", "other", env = env }, { "right", "other" }))
    local text, code = shell:run { "web", "--port", "0", env = { SERIATIM_WEB_TOKEN = "" } }
    assert.matches("SERIATIM_WEB_TOKEN must be a text of 1 to 1024 bytes", text)
    assert.equal(2, code)
  end)

  it("D2 listens on a Unix socket of its user alone, also where a dead one left its own", function()
    local path = shell.folder .. "/socket"
    for _ = 1, 2 do
      local running, where = served("--bind", "unix:" .. path, "--read-only")
      assert.equal("unix:" .. path, where)
      assert.matches("^srw%-%-%-%-%-%-%-", command.output_of("ls -l " .. path))
      assert.equal("HTTP/1.1 200 OK", line(where, "GET /api/v1/stats HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n"))
      assert.equal(2, select(2, shell:run("web", "--bind", "unix:" .. path)))
      running:stop("KILL", 10)
    end
  end)

  ---Seconds of processor time that the process has used.
  local function cpu_of(running)
    local stat = command.read(("/proc/%d/stat"):format(running.pid))
    local user, system = stat:match("%) %a" .. (" %S+"):rep(10) .. " (%d+) (%d+)")
    return (user + system) / 100
  end

  it("D9 reads a head of the greatest size in time linear in it", function()
    local running, port = served("--port", "0")
    local space = (" \t"):rep(8000)
    local cases = {
      ["400 Bad Request"] = { "X:" .. space .. "\1", "X:a" .. space .. "b\127", "X" .. space, ("X"):rep(16000) .. " " },
      ["200 OK"] = { "X:" .. space, "X:a" .. space .. "b", ("X:\r\n"):rep(4000) .. "X:" },
    }
    for status, heads in pairs(cases) do
      for place, fields in ipairs(heads) do
        local before = cpu_of(running)
        local answer = line(port, "GET /livez" .. CLOSE .. fields .. "\r\n\r\n")
        assert.same({ place, "HTTP/1.1 " .. status }, { place, answer })
        assert.is_true(cpu_of(running) - before < 2)
      end
    end
    running:stop()
  end)

  it("D9 D11 refuses what is malformed or too long", function()
    local running, port = served("--port", "0")
    local cases = {
      ["400 Bad Request"] = {
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n", "\r\n\r\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "GET /\127 HTTP/1.1\r\nHost: a\r\n\r\n",
      },
      ["413 Content Too Large"] = {
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
      },
      ["431 Request Header Fields Too Large"] = { "GET / HTTP/1.1\r\nHost: localhost\r\nX: " .. ("x"):rep(20000) },
      ["501 Not Implemented"] = { "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
      ["505 HTTP Version Not Supported"] = { "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n" },
      ["405 Method Not Allowed"] = { "TRACE / HTTP/1.0\r\n\r\n" },
    }
    for status, requests in pairs(cases) do
      for place, bytes in ipairs(requests) do
        assert.same({ place, "HTTP/1.1 " .. status }, { place, line(port, bytes) })
      end
    end
    running:stop()
  end)

  it("D9 answers while 400 clients are slow, of which it keeps 256", function()
    local running, port = served("--port", "0")
    local slow = [[
import select, socket, sys, time
all = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(400)]
for s in all:
    try: s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    except ConnectionError: pass
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
print(s.recv(12).decode(), len(select.select(all, [], [], 0)[0]) in range(140, 400)) # before the others lost their places, too
end = time.time() + 30
for s in all:
    s.settimeout(max(end - time.time(), 0.1))
    try:
        while s.recv(1000): pass
    except ConnectionError: pass
print("closed")
]]
    local text = command.output_of(('"${PYTHON:-/usr/bin/python3}" -c %s %s 2>&1'):format(command.quote(slow), port))
    assert.equal("HTTP/1.1 200 True\nclosed\n", text)
    running:stop()
  end)

  it("acknowledges beside two actions on a whole queue", function()
    local many = {}
    for id = 1, 60000 do
      many[id] = { id = id, payload = 0, delay = 600 }
    end
    assert(queue():perform_async(many))
    assert(jobs.worker("Pulled", nil, { shards_count = 2 }):perform_async { { id = "a", payload = 1 } })
    local running, port = served("--port", "0", "--consume")
    local ask_both = [[
import http.client, json, sys, threading, time
def post(path, **body):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
done = []
token = post("/api/v1/consume/pop", queues=["Pulled"], wait=0)[1]["token"]
actions = [threading.Thread(target=lambda: done.append(post("/api/web/Web/perform_all_jobs_now")[0])) for _ in range(2)]
for action in actions: action.start()
time.sleep(0.2)
print(post("/api/v1/consume/ack", token=token)[0], done)
for action in actions: action.join()
print(done)
]]
    local text = command.output_of(('"${PYTHON:-/usr/bin/python3}" -c %s %s 2>&1'):format(command.quote(ask_both), port))
    assert.equal("200 []\n[200, 200]\n", text)
    running:stop()
  end)
end)
