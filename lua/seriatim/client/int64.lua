-- LuaJIT has integers beyond 2^53 as int64_t: teaches them to the C module and to the checks. Elsewhere there is nothing to do.

local validate = require "seriatim.client.validate"
local native = require "seriatim.native"

if type(rawget(_G, "jit")) == "table" and native.set_int64 then
  local ffi = require "ffi"
  local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")

  ---Counts downwards, as -2^63 has no positive.
  local function from_text(text)
    local sign, digits = text:match("^(%-?)(%d+)$")
    local value = int64(0)
    for digit in digits:gmatch("%d") do
      value = value * 10 - tonumber(digit)
    end
    return sign == "-" and value or -value
  end

  local function to_text(value)
    if type(value) == "cdata" and (ffi.istype(int64, value) or ffi.istype(uint64, value)) then
      return (tostring(value):gsub("U?LL$", ""))
    end
    return nil
  end

  native.set_int64(from_text, to_text)
  validate.int64_text = to_text
end
