-- What is logged while a test works.
local log = require "seriatim.log"

---The lines that are logged while the function runs.
return function(level, work)
  local lines, output, before = {}, log.output, log.level
  log.level = level
  log.output = function(line)
    lines[#lines + 1] = line
  end
  local ran, err = pcall(work, lines)
  log.output, log.level = output, before
  if not ran then
    error(err, 0)
  end
  return table.concat(lines, "\n")
end
