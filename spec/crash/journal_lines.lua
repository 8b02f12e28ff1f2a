-- Lines of the journal, and the death that DIE orders, for record.lua, popper.lua and spec/interop/workload.lua. Twin of kit/journal.rb.

local native = require "seriatim.native"

local journal_lines = {}

local die_at, die_in = (os.getenv("DIE") or ""):match("^([%w_]+):(%d+)$")
local runs = 0 -- of this thread

---A function that writes a line of these words, in one write: see journal.rb on what a killed process leaves.
function journal_lines.to(path)
  local journal = assert(io.open(path, "ab"))
  journal:setvbuf("full", 65536)
  return function(...)
    journal:write("\n", table.concat({ ... }, " "), " .")
    journal:flush()
  end
end

function journal_lines.now()
  return ("%.3f"):format(native.now_ms() / 1000)
end

---1, 2, 3, 7 as 1-3,7.
function journal_lines.pack(numbers)
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

---This thread begins a run.
function journal_lines.count_run()
  runs = runs + 1
end

---DIE=perform_during:3 ends the process in the middle of a thread's third run.
function journal_lines.step(point)
  if point == die_at and runs == tonumber(die_in) then
    native.kill(native.getpid(), "KILL")
    native.sleep(60)
  end
end

return journal_lines
