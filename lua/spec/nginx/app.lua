-- The application of the nginx tests: workers that write what they ran to a journal in Redis.

local seriatim = require "resty.seriatim"
local redis = require "nginx.redis"

local app = {}

---Appends a line to the journal, by the way of any other code in nginx.
local function note(line)
  local connection = redis:new()
  assert(connection:connect(JOURNAL))
  assert(connection:rpush("journal", line))
  connection:set_keepalive(10000, 20)
end

app.Count = seriatim.worker {
  name = "Count",
  shards_count = 8,
  batch_size = 10,
  fold = "list",
  retry_in = function() return 0.05 end,
  perform = function(payloads_by_id, batch)
    for _, id in ipairs(batch.ids) do
      for _, payload in ipairs(payloads_by_id[id]) do
        note(("%s %s %d"):format(id, tostring(payload), ngx.worker.pid()))
      end
    end
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

app.Bad = seriatim.worker {
  name = "Bad",
  retry_in = function() return 0.05 end,
  perform = function(payloads_by_id, batch)
    for id, payloads in pairs(payloads_by_id) do
      note(("bad %s %d"):format(id, batch:retry_count(id)))
      if payloads[1] == "exit" then
        ngx.exit(500)
      elseif batch:retry_count(id) < 1 then
        error("bad luck")
      end
    end
  end,
}

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
  return worker:perform_async(jobs)
end

function app.push_later()
  local worker, jobs = asked()
  return seriatim.push_later(worker, jobs)
end

function app.answer()
  said(app.push())
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

---What perform_async says in a phase without sockets.
function app.refused_here()
  local _, err = app.push()
  ngx.header["X-Refused"] = tostring(err)
end

function app.figures()
  ngx.say(require("seriatim.native").dump({ later = seriatim.later(), stats = seriatim.stats(), pid = ngx.worker.pid() }, "it"))
end

return app
