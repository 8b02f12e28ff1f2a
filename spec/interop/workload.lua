-- Twin of ruby/spec/processes/support/workload.rb and spec/crash/kit/journal.rb: the same payloads, the same lines.

local json = require "json"
local lines = require "journal_lines"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local workload = { settings = json.load(os.getenv("WORKLOAD")) }
local write, now, step = lines.to(os.getenv("JOURNAL")), lines.now, lines.step

---1, 2, 3, 7 as 1-3,7.
local function pack(numbers)
  local rows, first = {}, nil
  for place, number in ipairs(numbers) do
    first = first or number
    if numbers[place + 1] ~= number + 1 then
      rows[#rows + 1] = first == number and ("%d"):format(number) or ("%d-%d"):format(first, number)
      first = nil
    end
  end
  return table.concat(rows, ",")
end

local function run(queue, id, payloads, batch)
  lines.count_run()
  local numbers = {}
  for place, payload in ipairs(payloads) do
    numbers[place] = payload.n
  end
  write("start", native.getpid(), queue, id, batch:fence(id), batch:retry_count(id), pack(numbers), now())
  step("perform_begin")
  for _, payload in ipairs(payloads) do
    native.sleep((payload.sleep or 0) / 2)
    step("perform_during")
    native.sleep((payload.sleep or 0) / 2)
  end
  write("end", native.getpid(), queue, id, batch:fence(id), now())
  step("perform_end")
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
