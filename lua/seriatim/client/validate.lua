-- Early validation: each function returns the value that it was given, or raises naming the field and the rule.

local errors = require "seriatim.errors"
local native = require "seriatim.native"

local validate = {}

local LONGEST = 60 -- bytes of a text that a message shows
local WHOLE = 2 ^ 53 -- beyond it a float stands for several integers

---Raises a usage error, which the command answers with exit code 2: seen at the start of a server.
---@param field string
---@param rule string
---@param value any
function validate.misuse(field, rule, value)
  errors.usage(("%s must %s, not %s"):format(field, rule, validate.describe(value)))
end

---Raises: this field must be so, and is that.
---@param field string
---@param rule string
---@param value any
function validate.refuse(field, rule, value)
  errors.misuse(field .. " must be " .. rule .. ", not " .. validate.describe(value))
end

---@param field string
---@param value any
---@param low integer
---@param high integer
---@return integer
function validate.integer(field, value, low, high)
  if validate.is_integer(value) and value >= low and value <= high then
    return math.tointeger and math.tointeger(value) or value
  end
  return validate.refuse(field, ("an integer from %d to %d"):format(low, high), value)
end

---@return integer
function validate.wait_replicas(field, value)
  return validate.integer(field, value, 0, 1000)
end

---@return number
function validate.wait_timeout(field, value)
  return validate.seconds(field, value, 0.001, 10)
end

---@return number
function validate.push_timeout(field, value)
  return validate.seconds(field, value, 0.1, 50)
end

---Is it a number without a fraction, and exact?
---@param value any
---@return boolean
function validate.is_integer(value)
  if math.type and math.type(value) == "integer" then
    return true
  end
  return type(value) == "number" and value % 1 == 0 and value >= -WHOLE and value <= WHOLE
end

---The decimal digits of an integer, LuaJIT's int64_t included; nil: the value is not an integer.
---@param value any
---@return string?
function validate.digits(value)
  if validate.is_integer(value) then
    return ("%d"):format(value)
  end
  return validate.int64_text and validate.int64_text(value)
end

---The text of a value if it is an int64_t of LuaJIT; set where there are such.
---@type nil|fun(value: any): string?
validate.int64_text = nil

---The value as a number, if it is one (an int64_t of LuaJIT, too), else nil.
---@param value any
---@return number?
function validate.number(value)
  if type(value) == "number" then
    return value
  end
  local text = validate.int64_text and validate.int64_text(value)
  return text and tonumber(text) or nil
end

---@param field string
---@param value any
---@param low number
---@param high number
---@return number
function validate.seconds(field, value, low, high)
  if type(value) == "number" and value >= low and value <= high then
    return value
  end
  return validate.refuse(field, ("a number of seconds from %.14g to %.14g"):format(low, high), value)
end

---What a codec has made of a payload.
---@param field string
---@param bytes string
---@return string
function validate.payload_bytes(field, bytes)
  if #bytes > native.max_payload then
    local text = "%s is %d bytes long; at most %d are allowed: store it elsewhere and pass its key"
    errors.misuse(text:format(field, #bytes, native.max_payload))
  end
  return bytes
end

---@param field string
---@param value any
---@param words string[]
---@return string
function validate.word(field, value, words)
  for _, word in ipairs(words) do
    if value == word then
      return value
    end
  end
  return validate.refuse(field, "one of " .. table.concat(words, ", "), value)
end

---@param field string
---@param value any
---@return boolean
function validate.flag(field, value)
  if type(value) == "boolean" then
    return value
  end
  return validate.refuse(field, "true or false", value)
end

---Is it a function, or a table that can be called?
---@param value any
---@return boolean
function validate.is_callable(value)
  if type(value) == "function" then
    return true
  end
  local metatable = type(value) == "table" and getmetatable(value)
  return type(metatable) == "table" and type(metatable.__call) == "function"
end

---@param field string
---@param value any
---@return function
function validate.callable(field, value)
  if validate.is_callable(value) then
    return value
  end
  return validate.refuse(field, "a function", value)
end

---@param field string
---@param value any
---@return function?
function validate.callable_or_nil(field, value)
  if value == nil or validate.is_callable(value) then
    return value
  end
  return validate.refuse(field, "a function or nil", value)
end

---A list of functions; an item that is inserted later is checked when the list is used.
---@param field string
---@param value any
---@return function[]
function validate.callables(field, value)
  for place, item in ipairs(validate.list(field, value)) do
    validate.callable(("%s[%d]"):format(field, place), item)
  end
  return value
end

---Is it a table whose only keys are 1 to its length? ipairs and # would leave out what stands behind a hole.
---@param value any
---@return boolean
---@return string? what  it is instead, for a message
function validate.is_list(value)
  if type(value) ~= "table" then
    return false, validate.describe(value)
  end
  local length = 0
  for place in ipairs(value) do
    length = place
  end
  for key in pairs(value) do
    if not validate.is_integer(key) or key < 1 then
      return false, "a table with the key " .. validate.shown(key)
    elseif key > length then
      return false, ("a table with a hole at %d (a list is from 1 on without holes)"):format(length + 1)
    end
  end
  return true
end

---@param field string
---@param value any
---@param rule string?  what it must be; nil: "a list"
---@return any[]
function validate.list(field, value, rule)
  local is_list, what = validate.is_list(value)
  if is_list then
    return value
  end
  return errors.misuse(("%s must be %s, not %s"):format(field, rule or "a list", what))
end

---@param field string
---@param value any
---@param low integer
---@param high integer
---@return string  of low to high bytes
function validate.text(field, value, low, high)
  if type(value) == "string" and #value >= low and #value <= high then
    return value
  end
  return validate.refuse(field, ("a text of %d to %d bytes"):format(low, high), value)
end

---A URL of Redis, as the core reads it.
---@param field string
---@param value any
---@param rule string  what it must be
---@return string
function validate.url(field, value, rule)
  if type(value) ~= "string" then
    return validate.refuse(field, rule, value)
  end
  local parsed, _, message = native.parse_url(value)
  if parsed then
    return value
  end
  local shown = value:find "[:@?]" and "" or ", not " .. validate.describe(value) -- a part of it may be a password
  return errors.misuse(("%s must be %s%s: %s"):format(field, rule, shown, (message:gsub("^Redis URL: ", ""))))
end

---The check of a worker's setting, called with the field and the value.
---@param setting seriatim.WorkerSetting
---@return fun(field: string, value: any): any
function validate.of_setting(setting)
  local low, high = setting.low, setting.high
  if setting.kind == "word" then
    low = setting.words
  end
  local one = validate[setting.kind]
  return function(field, value)
    if value == nil and setting.optional then
      return nil
    end
    return one(field, value, low, high)
  end
end

---Options of a call, by name.
---@param value table?
---@param names string[]  the known ones
---@return table
function validate.options(value, names)
  if value == nil then
    return {}
  end
  if type(value) ~= "table" then
    validate.refuse("options", "a table", value)
  end
  for key in pairs(value) do
    local known = false
    for _, name in ipairs(names) do
      known = known or key == name
    end
    if not known then
      errors.misuse(("unknown option %s; known are %s"):format(validate.shown(key), table.concat(names, ", ")))
    end
  end
  return value
end

---The type of a value, with its article.
---@param value any
---@return string
function validate.kind(value)
  if value == nil then
    return "nil"
  end
  if value == native.null then
    return "null"
  end
  if validate.int64_text and validate.int64_text(value) then
    return "an int64"
  end
  return "a " .. type(value)
end

---A text or number as it is written in a message, anything else by its type.
---@param value any
---@return string
function validate.shown(value)
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
  return validate.kind(value)
end

---@param value any
---@return string
function validate.describe(value)
  local shown = validate.shown(value)
  local kind = validate.kind(value)
  return shown == kind and shown or ("%s (%s)"):format(shown, type(value))
end

---Makes every method of a class refuse a call with a dot in place of the colon, which would take the first argument for the object.
---@param class table  its objects have it as metatable
---@param name string  the field of a worker that holds an object of the class
function validate.colons(class, name)
  for method_name, method in pairs(class) do
    if type(method) == "function" then
      class[method_name] = function(self, ...)
        if getmetatable(self) ~= class then
          local rule = "%s need a colon, as in worker.%s:%s(...), not %s"
          errors.misuse(rule:format(name, name, method_name, validate.kind(self)))
        end
        return method(self, ...)
      end
    end
  end
end

return validate
