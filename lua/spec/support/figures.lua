-- How often a fault is made, and what came of it: as spec/support/figures.rb. SOAK=1 asks for the counts of the long run;
-- FIGURES names the file to which each figure is appended as a line of JSON.

local native = require "seriatim.native"

local SOAK = os.getenv("SOAK") == "1"

local figures = {}

---The second in the long run, otherwise the first.
function figures.count(short, soak)
  return SOAK and soak or short
end

---fault: "F1". what: what was counted.
---@param fault string
---@param what string
---@param value number|string
function figures.note(fault, what, value)
  local path = os.getenv("FIGURES")
  if path and path ~= "" then
    local file = assert(io.open(path, "a"))
    file:write(native.dump({ fault = fault, what = what, value = value, soak = SOAK }, "figure") .. "\n")
    file:close()
  end
end

return figures
