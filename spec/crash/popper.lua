-- popper.lua - the crash kit's popper in Lua: what popper.c does.
--
--   popper.lua QUEUE ttr_seconds max

local lines = require "journal_lines"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local WAIT = 0.5
local queue, ttr, max = arg[1], tonumber(arg[2]), math.tointeger(arg[3])
local write, now, step = lines.to(os.getenv("JOURNAL")), lines.now, lines.step
local runs = 0

local function note(kind, delivery)
  write(kind, native.getpid(), queue, delivery.id, delivery.fence, now())
end

---Every tenth run ends without an acknowledgement, and its id comes again.
local function report(delivery, done)
  local said, err
  if done then
    said, err = delivery:ack()
  else
    said, err = delivery:release()
  end
  if said then
    note("reported", delivery)
  elseif err.kind == "STALE" then
    note("refused", delivery)
  else
    io.stderr:write("pop: ", tostring(err), "\n")
  end
end

local function run(delivery)
  runs = runs + 1
  lines.count_run()
  step("popped")
  local numbers = {}
  for place, payload in ipairs(delivery.payloads) do
    numbers[place] = payload.n
  end
  write("start", native.getpid(), queue, delivery.id, delivery.fence, -1, lines.pack(numbers), now())
  for _, payload in ipairs(delivery.payloads) do
    native.sleep(payload.sleep or 0)
  end
  step("perform_during")
  note(runs % 10 ~= 0 and "end" or "fail", delivery)
  step("acknowledge")
  report(delivery, runs % 10 ~= 0)
  step("acknowledged")
end

assert(native.catch_signals({ "TERM" }, "mark"))
write("popper", native.getpid(), ttr)
io.stderr:write("popper start \n")
repeat
  local delivery, err = seriatim.pop(queue, { wait = WAIT, ttr = ttr, max = max })
  if delivery then
    run(delivery)
  elseif err then
    io.stderr:write("pop: ", tostring(err), "\n")
    native.sleep(0.1)
  end
until native.signal(0) == "TERM"
