-- Counts the checks and prints those that failed.

local LONGEST = 2000

---@class spec.Report
local Report = { scenarios = 0, checks = 0, failed = 0 }
Report.__index = Report

---write: takes a line.
---@param write fun(line: string)
function Report.new(write)
  return setmetatable({ write = write }, Report)
end

function Report:scenario()
  self.scenarios = self.scenarios + 1
end

local function seen(raised)
  return { debug.traceback("raised: " .. tostring(raised), 2) }
end

---One check: the function gives what was wrong, a list of texts.
---@param where string
---@param examine fun(): string[]?
function Report:check(where, examine)
  local _, wrong = xpcall(examine, seen)
  self.checks = self.checks + 1
  if wrong and #wrong > 0 then
    self.failed = self.failed + 1
    self.write(("FAILED %s: %s"):format(where, table.concat(wrong, "; "):sub(1, LONGEST)))
  end
end

---Something ran and nothing failed.
---@return boolean
function Report:finish()
  self.write(("%d scenarios, %d checks, %d failed"):format(self.scenarios, self.checks, self.failed))
  return self.checks > 0 and self.failed == 0
end

return Report
