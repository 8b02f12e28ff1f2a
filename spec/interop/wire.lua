-- What the agent in Lua and its servers' threads write: a JSON value a line, in which bytes that are not UTF-8 are {"hex"}.

local json = require "json"
local seriatim = require "seriatim"

local wire = {}

local function hex_of(bytes)
  return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function bytes_of(hex)
  return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function encoded(value)
  if type(value) == "string" and not utf8.len(value) then
    return { hex = hex_of(value) }
  elseif type(value) ~= "table" then
    return value
  end
  local copy = setmetatable({}, getmetatable(value))
  for key, item in pairs(value) do
    copy[key] = encoded(item)
  end
  return copy
end

local function decoded(value)
  if type(value) ~= "table" then
    return value
  elseif value.hex and next(value, next(value)) == nil then
    return bytes_of(value.hex)
  end
  for key, item in pairs(value) do
    value[key] = decoded(item)
  end
  return value
end

---@return string  without the line's end
function wire.dump(value)
  return json.dump(encoded(value))
end

function wire.load(line)
  return decoded(json.load(line))
end

---All whole lines of a file; none where there is no file. Another thread may be writing the last one.
---@return any[]  a list
function wire.load_lines(path)
  local found, file = seriatim.array(), io.open(path, "rb")
  if not file then
    return found
  end
  for line in file:read("*a"):gmatch("([^\n]*)\n") do
    found[#found + 1] = wire.load(line)
  end
  file:close()
  return found
end

---One write a line, so that those of several threads never mix.
function wire.append(path, value)
  local file = assert(io.open(path, "ab"))
  local line = wire.dump(value) .. "\n"
  file:setvbuf("full", #line + 1)
  file:write(line)
  file:close()
end

return wire
