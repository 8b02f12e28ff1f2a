-- What tostring gives for results: the name of their class and their fields, on one line.
local validate = require "seriatim.client.validate"

local inspect = {}

---As validate.shown, but a whole number that is a float in Lua 5.4 as in all other versions: "3", not "3.0".
local function scalar(value)
  if type(value) == "number" and value % 1 == 0 then
    return ("%.0f"):format(value)
  end
  return validate.shown(value)
end

---A list of texts or numbers in full, of another list the number of its items.
local function text_of(value)
  if type(value) ~= "table" then
    return scalar(value)
  end
  local texts = {}
  for place, item in ipairs(value) do
    if type(item) == "table" then
      return ("{%d tables}"):format(#value)
    end
    texts[place] = scalar(item)
  end
  return "{" .. table.concat(texts, ", ") .. "}"
end

---@param name string  of the class
---@param fields string[]  in this order
---@param record table
---@return string  "NAME{field=value, ...}" without the fields that are nil
function inspect.line(name, fields, record)
  local texts = {}
  for _, field in ipairs(fields) do
    local value = rawget(record, field)
    if value ~= nil then
      texts[#texts + 1] = field .. "=" .. text_of(value)
    end
  end
  return ("%s{%s}"):format(name, table.concat(texts, ", "))
end

---A metatable for records of a class, which gives them only this text.
---@param name string
---@param fields string[]
---@return table
function inspect.class(name, fields)
  return {
    __name = name,
    __tostring = function(record) return inspect.line(name, fields, record) end,
  }
end

return inspect
