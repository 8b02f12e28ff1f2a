-- Early validation: each function returns the value that it was given, or raises naming the field and the rule.

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local check = {}

local LONGEST = 60 -- bytes of a text that a message shows
local WHOLE = 2 ^ 53 -- beyond it a float stands for several integers

---Raises a usage error, which the command answers with exit code 2: seen at the start of a server.
---@param field string
---@param rule string
---@param value any
function check.misuse(field, rule, value)
  errors.usage(("%s must %s, not %s"):format(field, rule, check.describe(value)))
end

---Raises: this field must be so, and is that.
---@param field string
---@param rule string
---@param value any
function check.refuse(field, rule, value)
  errors.misuse(field .. " must be " .. rule .. ", not " .. check.describe(value))
end

---@param field string
---@param value any
---@param low integer
---@param high integer
---@return integer
function check.integer(field, value, low, high)
  if check.is_integer(value) and value >= low and value <= high then
    return math.tointeger and math.tointeger(value) or value
  end
  return check.refuse(field, ("an integer from %d to %d"):format(low, high), value)
end

---@return integer
function check.wait_replicas(field, value)
  return check.integer(field, value, 0, 1000)
end

---@return number
function check.wait_timeout(field, value)
  return check.seconds(field, value, 0.001, 10)
end

---@return number
function check.push_timeout(field, value)
  return check.seconds(field, value, 0.1, 50)
end

---Is it a number without a fraction, and exact?
---@param value any
---@return boolean
function check.is_integer(value)
  if math.type and math.type(value) == "integer" then
    return true
  end
  return type(value) == "number" and value % 1 == 0 and value >= -WHOLE and value <= WHOLE
end

---The decimal digits of an integer, LuaJIT's int64_t included; nil: it is none.
---@param value any
---@return string?
function check.digits(value)
  if check.is_integer(value) then
    return ("%d"):format(value)
  end
  return check.int64_text and check.int64_text(value)
end

---The text of a value if it is an int64_t of LuaJIT; set where there are such.
---@type nil|fun(value: any): string?
check.int64_text = nil

---The value as a number, if it is one (an int64_t of LuaJIT, too), else nil.
---@param value any
---@return number?
function check.number(value)
  if type(value) == "number" then
    return value
  end
  local text = check.int64_text and check.int64_text(value)
  return text and tonumber(text) or nil
end

---@param field string
---@param value any
---@param low number
---@param high number
---@return number
function check.seconds(field, value, low, high)
  if type(value) == "number" and value >= low and value <= high then
    return value
  end
  return check.refuse(field, ("a number of seconds from %.14g to %.14g"):format(low, high), value)
end

---@param field string
---@param value any
---@param words string[]
---@return string
function check.word(field, value, words)
  for _, word in ipairs(words) do
    if value == word then
      return value
    end
  end
  return check.refuse(field, "one of " .. table.concat(words, ", "), value)
end

---@param field string
---@param value any
---@return boolean
function check.flag(field, value)
  if type(value) == "boolean" then
    return value
  end
  return check.refuse(field, "true or false", value)
end

---Is it a function, or a table that can be called?
---@param value any
---@return boolean
function check.is_callable(value)
  if type(value) == "function" then
    return true
  end
  local metatable = type(value) == "table" and getmetatable(value)
  return type(metatable) == "table" and type(metatable.__call) == "function"
end

---@param field string
---@param value any
---@return function
function check.callable(field, value)
  if check.is_callable(value) then
    return value
  end
  return check.refuse(field, "a function", value)
end

---@param field string
---@param value any
---@return function?
function check.callable_or_nil(field, value)
  if value == nil or check.is_callable(value) then
    return value
  end
  return check.refuse(field, "a function or nil", value)
end

---A list of functions; whoever inserts into it later is checked when it is used.
---@param field string
---@param value any
---@return function[]
function check.callables(field, value)
  for place, item in ipairs(check.list(field, value)) do
    check.callable(("%s[%d]"):format(field, place), item)
  end
  return value
end

---Is it a table whose only keys are 1 to its length?
---@param value any
---@return boolean
---@return any stranger  a key that is none of these
function check.is_list(value)
  if type(value) ~= "table" then
    return false
  end
  local length = #value
  for key in pairs(value) do
    if not check.is_integer(key) or key < 1 or key > length then
      return false, key
    end
  end
  return true
end

---@param field string
---@param value any
---@param rule string?  what it must be; nil: "a list"
---@return any[]
function check.list(field, value, rule)
  local is_list, stranger = check.is_list(value)
  if is_list then
    return value
  end
  if stranger ~= nil then
    errors.misuse(("%s must be %s, not a table with the key %s"):format(field, rule or "a list", check.shown(stranger)))
  end
  return check.refuse(field, rule or "a list", value)
end

---@param field string
---@param value any
---@param low integer
---@param high integer
---@return string  of so many bytes
function check.text(field, value, low, high)
  if type(value) == "string" and #value >= low and #value <= high then
    return value
  end
  return check.refuse(field, ("a text of %d to %d bytes"):format(low, high), value)
end

---Options of a call, by name.
---@param value table?
---@param names string[]  the known ones
---@return table
function check.options(value, names)
  if value == nil then
    return {}
  end
  if type(value) ~= "table" then
    check.refuse("options", "a table", value)
  end
  for key in pairs(value) do
    local known = false
    for _, name in ipairs(names) do
      known = known or key == name
    end
    if not known then
      errors.misuse(("unknown option %s; known are %s"):format(check.shown(key), table.concat(names, ", ")))
    end
  end
  return value
end

---The type of a value, with its article.
---@param value any
---@return string
function check.kind(value)
  if value == nil then
    return "nil"
  end
  if value == native.null then
    return "null"
  end
  if check.int64_text and check.int64_text(value) then
    return "an int64"
  end
  return "a " .. type(value)
end

---A text or number as it is written in a message, anything else by its type.
---@param value any
---@return string
function check.shown(value)
  if type(value) == "string" then
    local text = #value > LONGEST and value:sub(1, LONGEST) .. "..." or value
    return "'" .. text:gsub("%c", function(byte) return ("\\%d"):format(byte:byte()) end) .. "'"
  end
  if value ~= value then
    return "NaN"
  end
  if type(value) == "number" or type(value) == "boolean" then
    return tostring(value)
  end
  return check.kind(value)
end

---@param value any
---@return string
function check.describe(value)
  local shown = check.shown(value)
  local kind = check.kind(value)
  return shown == kind and shown or ("%s (%s)"):format(shown, type(value))
end

---Makes every method of a class refuse a call with a dot in place of the colon, which would take the first argument for the object.
---@param class table  its objects have it as metatable
---@param name string  the field of a worker that holds an object of the class
function check.colons(class, name)
  for method_name, method in pairs(class) do
    if type(method) == "function" then
      class[method_name] = function(self, ...)
        if getmetatable(self) ~= class then
          local rule = "%s need a colon, as in worker.%s:%s(...), not %s"
          errors.misuse(rule:format(name, name, method_name, check.kind(self)))
        end
        return method(self, ...)
      end
    end
  end
end

return check
