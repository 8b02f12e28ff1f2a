-- Seriatim for Lua, told what to do: a request a line on standard input, an answer a line on standard output. The protocol is in
-- README.md. A server's threads have Lua states of their own: they are told by files, and tell by files (recorder.lua).

local errors = require "seriatim.errors"
local recorder = require "recorder"
local seriatim = require "seriatim"
local servers = require "seriatim.server"
local wire = require "wire"
seriatim.push_timeout = 50 -- longer than a connection takes to be given up

local pipe = assert(io.popen("mktemp -d"))
local FOLDER = pipe:read("*l")
pipe:close()

local declared = {} -- by queue: worker and settings

local function write_file(name, text)
  local file = assert(io.open(FOLDER .. "/" .. name, "wb"))
  file:write(text)
  file:close()
end

local function read_lines(name)
  return wire.load_lines(FOLDER .. "/" .. name)
end

-- ---- the verbs

local verbs = {}

---The worker of this queue's code in this process; a later one takes its place. Its jobs run in the server's threads, which
---load recorder.lua and define the worker again; a server refuses a worker without perform, so this one has one that only fails.
function verbs.worker(request)
  local options = recorder.options(request.queue, request.settings)
  options.perform = function() error("jobs run in the server's threads only") end
  local worker = seriatim.worker(options)
  declared[request.queue] = { worker = worker, settings = request.settings }
end

---Places count from 0 between the languages.
function verbs.push(request, worker)
  local result = errors.must(worker:perform_async(request.jobs))
  for place, at in ipairs(seriatim.array(result.refused_at)) do
    result.refused_at[place] = at - 1
  end
  return result
end

---Runs a server until `request.runs` ids were run, for `request.seconds` at most.
function verbs.run(request, worker)
  local settings = declared[request.queue].settings
  write_file("worker", wire.dump { queue = request.queue, settings = settings, fail = request.fail } .. "\n")
  write_file("runs", "")
  write_file("exhausted", "")
  write_file("app.lua", ("require('recorder').serve(%q)\n"):format(FOLDER))
  seriatim.workers = { worker }
  local server = servers.new({ application = FOLDER .. "/app.lua", threads = 4 }):start()
  server:await(request.seconds, function() return #read_lines("runs") >= request.runs end)
  server:stop(10)
  return { runs = read_lines("runs"), exhausted = read_lines("exhausted") }
end

function verbs.query(request, worker)
  local queries = worker.queries
  return seriatim.array(errors.must(queries[request.query](queries, table.unpack(request.arguments))))
end

function verbs.action(request, worker)
  local actions = worker.actions
  return errors.must(actions[request.action](actions, table.unpack(request.arguments)))
end

function verbs.explain(request, worker)
  return errors.must(worker.queries:explain(request.id))
end

function verbs.metrics(_, worker)
  return errors.must(worker:metrics())
end

local ick = seriatim.ick()

function verbs.ick(request)
  return errors.must(ick[request.call](ick, table.unpack(request.arguments)))
end

function verbs.check(_, worker)
  return seriatim.array(errors.must(worker.actions:check()).findings)
end

-- ---- the protocol

local function result_of(line)
  local request = wire.load(line)
  local known = declared[request.queue]
  return verbs[request["do"]](request, known and known.worker)
end

for line in io.lines() do
  local answered, result = pcall(result_of, line)
  local answer = answered and { result = result == nil and seriatim.null or result } or { error = tostring(result) }
  io.write(wire.dump(answer), "\n")
  io.flush()
end
os.execute(("rm -rf '%s'"):format(FOLDER))
