-- The application of the nginx tests: workers that write what they ran to a journal in Redis.

local seriatim = require "resty.seriatim"
local redis = require "nginx.redis"

local app = {}

local DUMPED = "dumped: " -- in front of every stored error
seriatim.dump_error = function(text) return DUMPED .. text end
seriatim.load_error = function(stored) return stored:sub(1, #DUMPED) == DUMPED and stored:sub(#DUMPED + 1) or error("not dumped") end

---Asks the journal's Redis, as other code in nginx would.
local function ask(command, ...)
  local connection = redis:new()
  assert(connection:connect(JOURNAL))
  local answer = assert(connection[command](connection, ...))
  connection:set_keepalive(10000, 20)
  return answer
end

---Appends lines to the journal.
local function note(...)
  ask("rpush", "journal", ...)
end

app.Count = seriatim.worker {
  name = "Count",
  shards_count = 8,
  batch_size = 10,
  fold = "list",
  retry_in = function() return 0.05 end,
  perform = function(payloads_by_id, batch)
    local lines = {}
    for _, id in ipairs(batch.ids) do
      for _, payload in ipairs(payloads_by_id[id]) do
        lines[#lines + 1] = ("%s %s %d"):format(id, tostring(payload), ngx.worker.pid())
      end
    end
    note(unpack(lines))
  end,
}

app.Sleep = seriatim.worker {
  name = "Sleep",
  perform = function(payloads_by_id)
    for id, payloads in pairs(payloads_by_id) do
      note(("begin %s %d"):format(id, ngx.worker.pid()))
      ngx.sleep(tonumber(payloads[1]))
      note(("end %s %d"):format(id, ngx.worker.pid()))
    end
  end,
}

app.Ticks = seriatim.worker {
  name = "Ticks",
  perform = function(payloads_by_id)
    for id, payloads in pairs(payloads_by_id) do
      for _ = 1, tonumber(payloads[1]) do
        note(("tick %s %d"):format(id, ngx.worker.pid()))
        ngx.sleep(0.01)
      end
    end
  end,
}

app.Bad = seriatim.worker {
  name = "Bad",
  retry_in = function() return 0.05 end,
  perform = function(payloads_by_id, batch)
    for id, payloads in pairs(payloads_by_id) do
      note(("bad %s %d"):format(id, batch:retry_count(id)))
      if payloads[1] == "exit" then
        ngx.exit(500)
      elseif payloads[1] == "exit late" and batch:retry_count(id) < 0 then
        while not next(require("resty.seriatim.loop").started.retired) do -- the turn of this job
          ngx.sleep(0.05)
        end
        ngx.exit(500)
      elseif batch:retry_count(id) < 1 then
        error("bad luck")
      end
    end
  end,
}

if FAULTS then
  require("faulty")(app, note, ask)
end

local function said(result, err)
  ngx.status = result and 200 or 503
  ngx.say(result and "ok" or tostring(err))
end

---?id=&payload=&worker=
local function asked()
  local arguments = ngx.req.get_uri_args()
  return app[arguments.worker or "Count"], { { id = arguments.id, payload = arguments.payload or "" } }
end

function app.push()
  local worker, jobs = asked()
  local replicas = tonumber(ngx.req.get_uri_args().replicas)
  return worker:perform_async(jobs, replicas and { wait_replicas = replicas, wait_timeout = 5 })
end

function app.push_later()
  local worker, jobs = asked()
  local count, err = seriatim.push_later(worker, jobs)
  if not count then
    ngx.log(ngx.NOTICE, tostring(err))
  end
end

function app.answer()
  said(app.push())
end

local KEYS = { "state", "-" }
local clients = {} -- those that are idle; as in resty.seriatim, each has an identity and counts its pushes

---What perform_async sends, by Debian's lua-resty-redis: the yardstick of the load. ?sha= is that of the script.
function app.equal()
  local arguments = ngx.req.get_uri_args()
  local shard = ("seriatim:{Count/%d}:"):format(require("seriatim.native").shard_of(arguments.id, 8))
  local keys = {}
  for place, key in ipairs(KEYS) do
    keys[place] = shard .. key
  end
  local client = table.remove(clients) or { identity = require("seriatim.native").random_hex(16), sequence = 0 }
  client.sequence = client.sequence + 1
  keys[#keys + 1] = shard .. "push:" .. client.identity
  local sent = { "1", tostring(client.sequence), "list", "keep", "2", "0", arguments.id, '"' .. arguments.payload .. '"' }
  for _, argument in ipairs(sent) do
    keys[#keys + 1] = argument
  end
  local answer = ask("evalsha", arguments.sha, #KEYS + 1, unpack(keys))
  clients[#clients + 1] = client
  said(answer)
end

function app.in_timer()
  local worker, jobs = asked()
  said(ngx.timer.at(0, function()
    local result, err = worker:perform_async(jobs)
    if not result then
      ngx.log(ngx.ERR, "timer: ", tostring(err))
    end
  end))
end

---How often all garbage is collected while 20 operations wait for the only place of a pool, for ?seconds=.
function app.crowd()
  local places = require "resty.seriatim.places"
  local collect, count, waiters = collectgarbage, 0, {}
  local place = places.enter("crowd", 1, 0)
  _G.collectgarbage = function(...)
    count = count + 1
    return collect(...)
  end
  for number = 1, 20 do
    waiters[number] = ngx.thread.spawn(places.enter, "crowd", 1, tonumber(ngx.var.arg_seconds) * 1000)
  end
  for _, waiter in ipairs(waiters) do
    ngx.thread.wait(waiter)
  end
  _G.collectgarbage = collect
  place:leave()
  ngx.say(count)
end

---What perform_async says in a phase without sockets.
function app.refused_here()
  local _, err = app.push()
  ngx.header["X-Refused"] = tostring(err)
end

---What is stored of the workers of this name.
function app.records()
  local found, records = {}, assert(asked().queries:range_by_id("-", "+", { limit = 1000 }))
  for place, record in ipairs(records) do
    found[place] = { id = record.id, error = require("seriatim.log").utf8(record.error or ""):sub(1, 200), retry_count = record.retry_count }
  end
  ngx.say(require("seriatim.native").dump(seriatim.array(found), "it"))
end

function app.figures()
  ngx.say(require("seriatim.native").dump({ later = seriatim.later(), stats = seriatim.stats(), pid = ngx.worker.pid() }, "it"))
end

---Lets the timers of nginx run that it may run at once (lua_max_running_timers): it drops all others for ?seconds=.
function app.fill_timers()
  local seconds = tonumber(ngx.req.get_uri_args().seconds)
  for _ = 1, 10 do
    assert(ngx.timer.at(0, function() ngx.sleep(seconds) end))
  end
  ngx.sleep(0.1)
  ngx.say "busy"
end

---Pops from the queues of ?queues=, which nobody serves; says how long it took, and what it got.
function app.pop()
  local arguments, queues = ngx.req.get_uri_args(), {}
  for name in arguments.queues:gmatch("%w+") do
    queues[#queues + 1] = name
  end
  local began = ngx.now()
  local delivery, err = seriatim.pop(queues, { wait = tonumber(arguments.wait or 0), ttr = tonumber(arguments.ttr or 30) })
  local answer = { took = ngx.now() - began, error = err and tostring(err) }
  if delivery then
    answer.id, answer.payloads, answer.queue, answer.deliveries = delivery.id, delivery.payloads, delivery.queue, delivery.deliveries
    answer.done = arguments.op ~= "nothing" and delivery[arguments.op or "ack"](delivery) or false
  end
  ngx.say(require("seriatim.native").dump(answer, "it"))
end

---Pushes to a queue that this nginx does not serve.
function app.push_to()
  local arguments = ngx.req.get_uri_args()
  local replicas = tonumber(arguments.replicas)
  local options = replicas and { wait_replicas = replicas, wait_timeout = 1 }
  said(seriatim.push(seriatim.worker { name = arguments.queue }, { { id = arguments.id, payload = arguments.payload } }, options))
end

---Pushes to two queues in one block, with a turn of the other light threads in it; says what the futures have.
function app.pipelined()
  local arguments, futures = ngx.req.get_uri_args(), {}
  local _, err = seriatim.pipelined(function()
    futures[1] = app.Count:perform_async { { id = arguments.id, payload = "1" }, { id = arguments.id, payload = "2" } }
    ngx.sleep(0.01)
    futures[2] = app.Sleep:perform_async { { id = arguments.id, payload = "0" } }
  end)
  ngx.say(err and tostring(err) or ("%d %d"):format(futures[1].added, futures[2].added))
end

app.ick = seriatim.ick()

---Leaves the function of pipelined by ?how=, past every pcall: exit ends the request, sleep waits until its client is gone, and kill
---ends a light thread, after which another one of the request pushes. ?of=ick: pipelined of a set.
function app.leave_pipelined()
  local arguments = ngx.req.get_uri_args()
  local function leave()
    if arguments.how == "exit" then
      ngx.exit(400)
    end
    ngx.sleep(60)
  end
  local function pipelined()
    if arguments.of == "ick" then
      app.ick:pipelined(function()
        app.ick:ickadd("set", 1, "left")
        leave()
      end)
    end
    seriatim.pipelined(function()
      app.Count:perform_async { { id = "left", payload = "left" } }
      leave()
    end)
  end
  if arguments.how ~= "kill" then
    pipelined()
  end
  ngx.thread.kill(ngx.thread.spawn(pipelined))
  app.answer_in_thread()
end

---What answer says, of a push by a light thread of its own.
function app.answer_in_thread()
  local _, result, err = ngx.thread.wait(ngx.thread.spawn(app.push))
  said(result, err)
end

function app.add_to_set()
  local added, err = app.ick:ickadd("set", 1, ngx.req.get_uri_args().id)
  ngx.say(added and ("%s new"):format(added[1]) or tostring(err))
end

---Gives the events of type Late a handler in this nginx worker (?call=on), takes it away (off), or enqueues one (enqueue&id=).
function app.event()
  local arguments, events = ngx.req.get_uri_args(), seriatim.events "shop"
  local call, result, err = arguments.call, nil, nil
  if call == "on" then
    local given
    given, err = pcall(events.on, events, "Late", function(event)
      note(("late %s %d"):format(event, ngx.worker.pid()))
      return true
    end)
    result = given and "given"
  elseif call == "off" then
    result = tostring(events:off("Late"))
  else
    result, err = events:enqueue("Late", { id = arguments.id, event = arguments.id })
    result = result and "enqueued"
  end
  ngx.say(result or tostring(err))
end

---Of the dashboard at /seriatim: a role by a header field, which an application would take from its session.
app.web = {
  role = function(request)
    ngx.sleep(0) -- as one that asks a session store
    return request.headers["x-role"] or "admin"
  end,
  redact = function(_, _, text) return (text:gsub("SECRET%-%d", "*")) end,
  audit = function(request, change)
    local user, dump = request.headers["x-user"] or "nobody", require("seriatim.native").dump
    local first = change.ids and dump(change.ids[1], "id") or "null"
    assert(user ~= "break", "broken")
    ngx.log(ngx.WARN, ("audit: %s by %s of %s, queue %s, %d ids, first %s, count %s, status %d"):format(change.action, change.role, user,
      change.queue, #(change.ids or {}), first, change.count or "-", change.status))
  end,
  hosts = { "127.0.0.1", "jobs.example" },
}

return app
