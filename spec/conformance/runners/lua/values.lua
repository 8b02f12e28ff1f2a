-- The values of the files, and the comparison with what was found. Each comparison gives a list of texts: what is wrong.

local native = require "seriatim.native"
local seriatim = require "seriatim"

local FLOATS = { NaN = 0 / 0, Infinity = math.huge, ["-Infinity"] = -math.huge }
local LONGEST = 300

---@class spec.Values
---@field start number  T
local Values = {}
Values.__index = Values

---@param start number?
function Values.new(start)
  return setmetatable({ start = start or 0 }, Values)
end

-- ---- written

local function is_list(value)
  return type(value) == "table" and (getmetatable(value) == seriatim.array_mt or #value > 0)
end

local function has_only(value, ...)
  local count = 0
  for _, key in ipairs { ... } do
    if value[key] == nil then
      return false
    end
    count = count + 1
  end
  for _ in pairs(value) do
    count = count - 1
  end
  return count == 0
end

local function is_bytes(value)
  return type(value) == "table" and (has_only(value, "hex") or has_only(value, "repeat", "times"))
end

---The bytes that a text, {"hex"} or {"repeat", "times"} means; anything else as it is.
function Values.bytes(value)
  if not is_bytes(value) then
    return value
  elseif value.hex then
    return (value.hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
  end
  return value["repeat"]:rep(value.times)
end

---A number, where one is wanted.
function Values.number(value)
  return FLOATS[value] or value
end

---nil where the files say null.
function Values.optional(value)
  if value ~= seriatim.null then
    return value
  end
end

-- ---- shown

local function shown(value)
  if is_list(value) then
    local parts = {}
    for place, item in ipairs(value) do
      parts[place] = shown(item)
    end
    return "[" .. table.concat(parts, ", ") .. "]"
  elseif type(value) == "table" then
    local parts = {}
    for key, item in pairs(value) do
      parts[#parts + 1] = tostring(key) .. ": " .. shown(item)
    end
    table.sort(parts)
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  return type(value) == "string" and ("%q"):format(value) or value == seriatim.null and "null" or tostring(value)
end

---Any value as a text of a message.
function Values.shown(value)
  return (shown(value):sub(1, LONGEST))
end

---@param wanted any
---@param found any
---@param where string
function Values.differs(wanted, found, where)
  return { ("%s is %s, not %s"):format(where, Values.shown(found), Values.shown(wanted)) }
end

---Puts the second list's texts behind the first's.
function Values.add(wrong, more)
  for _, text in ipairs(more or {}) do
    wrong[#wrong + 1] = text
  end
  return wrong
end

-- ---- compared

local NUMBERS = { number = true, cdata = true }

local function same(wanted, found)
  if wanted == seriatim.null or found == seriatim.null then
    return (wanted == seriatim.null or wanted == nil) and (found == seriatim.null or found == nil)
  end
  if NUMBERS[type(wanted)] and NUMBERS[type(found)] then
    return wanted == found
  end
  return type(wanted) == type(found) and wanted == found
end

---Whole values.
local function equal(wanted, found)
  if type(wanted) ~= "table" or type(found) ~= "table" then
    return (wanted == seriatim.null) == (found == seriatim.null) and same(wanted, found)
  end
  if is_list(wanted) ~= is_list(found) then
    return false
  end
  for key, value in pairs(wanted) do
    if found[key] == nil or not equal(value, found[key]) then
      return false
    end
  end
  for key in pairs(found) do
    if wanted[key] == nil then
      return false
    end
  end
  return true
end

local function near(found, moment, within)
  return type(found) == "number" and math.abs(found - moment) <= within
end

local function between(found, low, high)
  return type(found) == "number" and (low or -math.huge) <= found and found <= (high or math.huge)
end

local function is_range(wanted)
  return has_only(wanted, "min") or has_only(wanted, "max") or has_only(wanted, "min", "max")
end

---nil: it is none of them.
function Values:special(wanted, found)
  if wanted.has then
    return (found or ""):find(Values.bytes(wanted.has), 1, true) ~= nil
  elseif wanted.at then
    return near(found, self.start + wanted.at, wanted.within)
  elseif wanted.from then
    return type(found) == "number" and between(found - self.start, wanted.from, wanted.to)
  elseif wanted.from_now then
    return near(found, native.time() + wanted.from_now, wanted.within)
  elseif is_range(wanted) then
    return between(found, wanted.min, wanted.max)
  end
end

---Of an object only the members that are given, of a list all elements.
function Values:compare(wanted, found, where)
  if is_bytes(wanted) then
    wanted = Values.bytes(wanted)
  end
  if is_list(wanted) then
    return self:compare_list(wanted, found, where)
  elseif type(wanted) == "table" then
    return self:compare_object(wanted, found, where)
  end
  return same(wanted, found) and {} or Values.differs(wanted, found, where)
end

function Values:compare_object(wanted, found, where)
  local fits = self:special(wanted, found)
  if fits ~= nil then
    return fits and {} or Values.differs(wanted, found, where)
  end
  if type(found) ~= "table" then
    return Values.differs(wanted, found, where)
  end
  local wrong = {}
  for key, value in pairs(wanted) do
    Values.add(wrong, self:compare(value, found[key], where .. "." .. key))
  end
  return wrong
end

function Values:compare_list(wanted, found, where)
  if type(found) ~= "table" or #found ~= #wanted then
    return Values.differs(wanted, found, where)
  end
  local wrong = {}
  for place, value in ipairs(wanted) do
    Values.add(wrong, self:compare(value, found[place], ("%s[%d]"):format(where, place)))
  end
  return wrong
end

---Payloads are compared whole. raw: they are bytes.
function Values.compare_payloads(wanted, found, where, raw)
  local values = seriatim.array {}
  for place, value in ipairs(wanted) do
    values[place] = raw and Values.bytes(value) or value
  end
  return found and equal(values, seriatim.array(found)) and {} or Values.differs(values, found, where)
end

---{{payload, score}, ...}
function Values:compare_scored(wanted, found, where, raw)
  local halves = { {}, {}, {}, {} }
  for side, pairs_ in ipairs { wanted, found } do
    for place, pair in ipairs(pairs_) do
      halves[side][place], halves[side + 2][place] = pair[1], pair[2]
    end
  end
  local wrong = Values.compare_payloads(halves[1], halves[2], where, raw)
  return Values.add(wrong, self:compare_list(halves[3], halves[4], where .. ", scores"))
end

---The members of an object that a list of records or jobs is made of.
function Values:compare_record(wanted, found, where, raw, scored)
  local wrong = {}
  for key, value in pairs(wanted) do
    local at = where .. "." .. key
    if key ~= "payloads" then
      Values.add(wrong, self:compare(value, found[key], at))
    elseif scored and is_list(value[1]) then
      Values.add(wrong, self:compare_scored(value, found[key], at, raw))
    else
      Values.add(wrong, Values.compare_payloads(value, found[key], at, raw))
    end
  end
  return wrong
end

return Values
