-- JSON that keeps what the library must be tested on: integers of int64, the difference between 1 and 1.0, null, and which
-- tables are lists. Written here so that the library does not read its own test data.

local seriatim = require "seriatim"

local json = {}

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local GREATEST = { [""] = "9223372036854775807", ["-"] = "9223372036854775808" }
local EXACT = 2 ^ 53

-- ---- reading

local function utf8_of(code)
  if code < 0x80 then
    return string.char(code)
  elseif code < 0x800 then
    return string.char(0xC0 + math.floor(code / 0x40), 0x80 + code % 0x40)
  elseif code < 0x10000 then
    return string.char(0xE0 + math.floor(code / 0x1000), 0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
  end
  return string.char(0xF0 + math.floor(code / 0x40000), 0x80 + math.floor(code / 0x1000) % 0x40,
    0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
end

local function pair_of(high, low)
  return utf8_of(0x10000 + (tonumber(high, 16) - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00)
end

local function unescaped(text)
  text = text:gsub("\\\\", "\\u005c")
  text = text:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", pair_of)
  text = text:gsub("\\u(%x%x%x%x)", function(digits)
    return digits:lower() == "005c" and "\\\\" or utf8_of(tonumber(digits, 16))
  end)
  return (text:gsub("\\(.)", function(letter) return ESCAPES[letter] or letter end))
end

---Integers within int64 stay integers: of Lua 5.4, or of LuaJIT's int64_t where a number is not exact.
local function number_of(text)
  local value = tonumber(text)
  local sign, digits = text:match("^(%-?)(%d+)$")
  if math.type or not digits or math.abs(value) <= EXACT then
    return value
  end
  if #digits > 19 or #digits == 19 and digits > GREATEST[sign] then
    return value
  end
  return assert(loadstring("return " .. text .. "LL"))()
end

local value_at

local function skipped(text, at)
  return text:find("[^ \t\r\n]", at)
end

local function string_at(text, at)
  local stop = text:find('["\\]', at + 1)
  while text:byte(stop) == 92 do
    stop = text:find('["\\]', stop + 2)
  end
  return unescaped(text:sub(at + 1, stop - 1)), stop + 1
end

local function list_at(text, at)
  local list, count = seriatim.array(), 0
  at = skipped(text, at + 1)
  while text:byte(at) ~= 93 do
    count = count + 1
    list[count], at = value_at(text, at)
    at = skipped(text, at)
    if text:byte(at) == 44 then
      at = skipped(text, at + 1)
    end
  end
  return list, at + 1
end

local function object_at(text, at)
  local object = {}
  at = skipped(text, at + 1)
  while text:byte(at) ~= 125 do
    local key, stop = string_at(text, at)
    object[key], at = value_at(text, skipped(text, text:find(":", stop, true) + 1))
    at = skipped(text, at)
    if text:byte(at) == 44 then
      at = skipped(text, at + 1)
    end
  end
  return object, at + 1
end

local WORDS = { t = { true, 4 }, f = { false, 5 }, n = { seriatim.null, 4 } }

function value_at(text, at)
  local first = text:sub(at, at)
  if first == '"' then
    return string_at(text, at)
  elseif first == "[" then
    return list_at(text, at)
  elseif first == "{" then
    return object_at(text, at)
  elseif WORDS[first] then
    return WORDS[first][1], at + WORDS[first][2]
  end
  local digits = assert(text:match("^[-+.%deE]+", at), "no JSON")
  return number_of(digits), at + #digits
end

---What a text says that is known to be JSON. null is seriatim.null, lists carry the mark.
function json.load(text)
  return (value_at(text, skipped(text, 1)))
end

function json.load_file(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return json.load(text)
end

-- ---- writing

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(char) return ("\\u%04x"):format(char:byte()) end) .. '"'
end

local function number_text(value)
  if math.type and math.type(value) == "integer" then
    return ("%d"):format(value)
  end
  local text = ("%.17g"):format(value)
  return text:find("[.e]") and text or text .. ".0"
end

local function object_text(object)
  local parts = {}
  for key, value in pairs(object) do
    parts[#parts + 1] = quoted(key) .. ":" .. json.dump(value)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function list_text(list)
  local parts = {}
  for place, value in ipairs(list) do
    parts[place] = json.dump(value)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

---A float is never written as an integer (in Lua 5.4), and an empty table without the mark is an object.
function json.dump(value)
  if type(value) == "string" then
    return quoted(value)
  elseif type(value) == "number" then
    return number_text(value)
  elseif type(value) == "table" then
    local is_list = #value > 0 or getmetatable(value) == seriatim.array_mt
    return is_list and list_text(value) or object_text(value)
  elseif type(value) == "boolean" then
    return tostring(value)
  end
  return value == nil or value == seriatim.null and "null" or (tostring(value):gsub("U?LL$", ""))
end

return json
