-- A server inside nginx of the workers in WORKLOAD, a producer in a timer of it, as producer.lua is one, and pushes by requests.
-- luacheck: globals ngx

local seriatim = require "resty.seriatim"
local errors = require "seriatim.errors"
local workload = require "workload"

local in_nginx = {}

local settings = workload.settings
seriatim.redis = os.getenv "REDIS_URL"
seriatim.push_timeout = 50 -- outlasts the faults of the crash kit
for name, value in pairs(settings.seriatim or {}) do
  seriatim[name] = value
end

local workers = {}
for queue, options in pairs(settings.workers) do
  workers[queue] = workload.worker(queue, options)
end

local function is_enough()
  local file = settings["until"] and io.open(settings["until"])
  return file and file:close()
end

local function push(queue, id, number)
  local counts, err
  repeat
    counts, err = workers[queue]:perform_async { { id = id, payload = { n = number } } }
  until counts or not errors.is(err, "NOT_REPLICATED")
  errors.must(counts, err)
  workload.pushed(queue, id, { number })
end

---Pushes 1, 2, ... to each of the ids until the file is there.
local function produce()
  local number = 0
  while not is_enough() do
    number = number + 1
    for _, id in ipairs(settings.ids) do
      push(settings.queue, id, number)
    end
    ngx.sleep(settings.pause or 0)
  end
  ngx.log(ngx.NOTICE, "the producer has ended")
end

---For init_worker_by_lua_block.
function in_nginx.start()
  if settings.serves ~= false then
    seriatim.start {}
  end
  if settings.ids then
    ngx.timer.at(0, produce)
  end
end

---?queue=&from=&to= pushes one payload to each of the ids from..to in one call.
function in_nginx.push()
  local arguments, jobs = ngx.req.get_uri_args(), {}
  for number = tonumber(arguments.from), tonumber(arguments.to) do
    jobs[#jobs + 1] = { id = "id" .. number, payload = { n = 1 } }
  end
  local counts, err = workers[arguments.queue]:perform_async(jobs)
  for _, job in ipairs(counts and jobs or {}) do
    workload.pushed(arguments.queue, job.id, { 1 })
  end
  ngx.status = counts and 200 or 503
  ngx.say(counts and counts.added or tostring(err))
end

---?queue=&wait= pops an id and acknowledges it.
function in_nginx.pop()
  local arguments = ngx.req.get_uri_args()
  local delivery, err = seriatim.pop(arguments.queue, { wait = tonumber(arguments.wait) })
  ngx.say(delivery and delivery:ack() and delivery.id or tostring(err))
end

return in_nginx
