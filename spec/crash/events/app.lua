-- Handles the events of events_spec.rb: appends "NAME begin EVENT" to TRACE, waits until the file GATE exists, appends "NAME end EVENT".
local native = require "seriatim.native"
local seriatim = require "seriatim"

local NAME, TRACE, GATE = os.getenv "NAME", os.getenv "TRACE", os.getenv "GATE"

seriatim.lease_time = 8
seriatim.poll_interval = 0.2

local function note(text, event)
  local trace = assert(io.open(TRACE, "a"))
  trace:write(("%s %s %s\n"):format(NAME, text, event))
  trace:close()
end

local function is_open()
  local gate = io.open(GATE)
  return gate ~= nil and gate:close()
end

local function handle(event)
  note("begin", event)
  while not is_open() do
    native.sleep(0.01)
  end
  note("end", event)
  return true
end

local events = seriatim.events "shop"
events:on("Paid", handle, { max_running = 5 })
events:on("Slow", handle, { max_running = 1 })
events:on("Last", handle, { attempts = 1 })

-- Without a gate; TYPE.EVENT.CONTEXT is noted.
local function run(type, result)
  return function(event, context)
    note("ran", ("%s.%s.%s"):format(type, event, context.of))
    return result
  end
end

for _, type in ipairs { "One", "Two", "Three" } do
  events:on(type, run(type, true), { max_running = 3 })
end
events:on("Fails", run("Fails", false), { attempts = 10, retry_in = { 0 } })
return events
