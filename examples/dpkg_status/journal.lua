-- One file that every process appends to: what was pushed, begun, ended and failed, in one order.

local json = require("seriatim.client.codec").json

local journal = {}

local file = assert(io.open(os.getenv("DEMO_JOURNAL"), "ab"))
file:setvbuf("full", 65536)

---One write call a record, so that the records of several threads and processes never mix.
---@param event string
---@param fields table
function journal.write(event, fields)
  local record = { event = event }
  for name, value in pairs(fields) do
    record[name] = value
  end
  file:write(json.dump(record, "record"), "\n")
  file:flush()
end

return journal
