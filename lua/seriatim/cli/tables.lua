-- What the operators' verbs print: tables and JSON.
local output = require "seriatim.cli.output"
local log = require "seriatim.log"
local native = require "seriatim.native"

local tables = {}

---JSON has no bytes and no infinities: what is not UTF-8 is shown with question marks, what is not finite as null.
local function readable(value)
  if type(value) == "string" then
    return log.utf8(value)
  elseif type(value) == "number" and value - value ~= 0 then
    return native.null
  elseif type(value) ~= "table" then
    return value
  end
  local copy = {}
  for key, item in pairs(value) do
    copy[type(key) == "string" and log.utf8(key) or key] = readable(item)
  end
  return setmetatable(copy, getmetatable(value))
end

function tables.json(value)
  return native.dump(readable(value), "answer")
end

---As one line.
function tables.print_json(value)
  -- What JSON itself leaves as it is and a terminal would obey is escaped, which is the same JSON.
  output.write(log.printable(tables.json(value)), "\n")
end

local function cell(value)
  local is_float = type(value) == "number" and (value % 1 ~= 0 or math.type and math.type(value) == "float")
  return is_float and ("%.1f"):format(value) or log.printable(value)
end

---How many characters a text of valid UTF-8 has.
local function width(text)
  return select(2, text:gsub("[^\128-\191]", ""))
end

---Rows of cells in columns.
---@param rows any[][]
function tables.print(rows)
  local texts, widths = {}, {}
  for place, row in ipairs(rows) do
    texts[place] = {}
    for at, value in ipairs(row) do
      texts[place][at] = cell(value)
      widths[at] = math.max(widths[at] or 0, width(texts[place][at]))
    end
  end
  for _, row in ipairs(texts) do
    local parts = {}
    for at, text in ipairs(row) do
      parts[at] = text .. (" "):rep(widths[at] - width(text))
    end
    output.write((table.concat(parts, "  "):gsub(" +$", "")), "\n")
  end
end

return tables
