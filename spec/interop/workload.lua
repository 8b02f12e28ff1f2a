-- Twin of ruby/spec/processes/support/workload.rb and spec/crash/kit/journal.rb: the same payloads, the same lines.

local json = require "json"
local lines = require "journal_lines"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local workload = { settings = json.load(os.getenv("WORKLOAD")) }
local write, now, step, pack = lines.to(os.getenv("JOURNAL")), lines.now, lines.step, lines.pack

local function exists(path)
  local file = io.open(path)
  return file and file:close()
end

---LuaJIT's tostring keeps 14 digits.
local function fence(batch, id)
  return ("%d"):format(batch:fence(id))
end

local function note(kind, queue, id, batch, payload)
  if payload.task then
    write(kind, native.getpid(), queue, id, fence(batch, id), payload.n, now())
  end
end

local function snooze(id, payload, batch)
  local again = {}
  for word, value in pairs(payload) do
    again[word] = word ~= "snooze" and value or nil
  end
  batch:snooze(id, payload.snooze, { payload = again })
end

---A payload that is done by itself asks for its checkpoint.
local function checkpoint(queue, id, place, payload, batch)
  note("did", queue, id, batch, payload)
  assert(batch:checkpoint(id, place))
  if payload.task == "flush" then
    assert(batch:flush())
    note("confirmed", queue, id, batch, payload)
  end
end

---Returns how the run ended: "end", "snooze".
local function perform(queue, id, payloads, batch)
  for place, payload in ipairs(payloads) do
    note("task", queue, id, batch, payload)
    native.sleep((payload.sleep or 0) / 2)
    step("perform_during")
    native.sleep((payload.sleep or 0) / 2)
    if payload.fail and not exists(payload.fail) then
      error("told to fail")
    end
    if payload.task and payload.snooze then
      snooze(id, payload, batch)
      return "snooze"
    elseif payload.task then
      checkpoint(queue, id, place, payload, batch)
    end
  end
  return "end"
end

local function run(queue, id, payloads, batch)
  lines.count_run()
  local numbers = {}
  for place, payload in ipairs(payloads) do
    numbers[place] = payload.n
  end
  write("start", native.getpid(), queue, id, fence(batch, id), batch:retry_count(id), pack(numbers), now())
  step("perform_begin")
  local well, kind = pcall(perform, queue, id, payloads, batch)
  write(well and kind or "fail", native.getpid(), queue, id, fence(batch, id), now())
  step("perform_end")
  if not well then
    error(kind, 0)
  end
end

---settings: of seriatim.worker, and `back_off`, the seconds that retry_in gives.
function workload.worker(queue, settings)
  local options = { queue_name = queue }
  for name, value in pairs(settings) do
    options[name] = value
  end
  options.back_off = nil
  function options.retry_in()
    return settings.back_off or 0.1
  end
  function options.perform(_, batch)
    for _, id in ipairs(batch.ids) do
      run(queue, id, batch.payloads_by_id[id], batch)
    end
  end
  return seriatim.worker(options)
end

function workload.pushed(queue, id, numbers)
  write("pushed", queue, id, pack(numbers))
end

return workload
