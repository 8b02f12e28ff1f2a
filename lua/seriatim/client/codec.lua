-- Turns payloads into bytes and back.

local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local codec = {}

---"json", "raw", a pair {dump, load}, or nil: the module's dump_payload and load_payload.
---@alias seriatim.CodecSetting "json"|"raw"|{ [1]: (fun(payload: any): string), [2]: (fun(data: string): any) }|nil

---@class seriatim.Codec
---@field nothing string  the payload of a job without one
---@field native "json"|"raw"|nil  the C module knows it, too
---@field dump fun(payload: any, where: string): string  raises, naming where
---@field load fun(data: string): any, string?  nil and the reason where it cannot be read; never raises

local RULE = "json, raw or a pair of functions {dump, load}"

local function load_json(data)
  local value, _, message = native.load(data)
  return value, message
end

---Canonical JSON (RFC 8785, integers exact within int64).
---@type seriatim.Codec
codec.json = {
  nothing = "",
  native = "json",
  dump = function(payload, where) return errors.guard(native.dump, payload, where) end,
  load = load_json,
}

---The bytes themselves.
---@type seriatim.Codec
codec.raw = {
  nothing = "",
  native = "raw",
  dump = function(payload, where)
    if type(payload) ~= "string" then
      errors.misuse(where .. ": must be a string, not " .. validate.kind(payload))
    end
    return payload
  end,
  load = function(data) return data end,
}

local function loaded(ok, value, reason)
  if not ok then
    return nil, log.describe(value)
  end
  if value == nil then
    return nil, reason and log.describe(reason) or "load_payload gave nil"
  end
  return value
end

---A pair of functions of the application's. A load that gives nil (and maybe a reason), or raises, cannot read it.
---@param dump fun(payload: any): string
---@param load fun(data: string): any
---@return seriatim.Codec
local function own(dump, load)
  return {
    nothing = "",
    dump = function(payload, where)
      local data, reason = dump(payload)
      if type(data) ~= "string" then
        local why = reason and (": " .. log.describe(reason)) or ""
        errors.misuse(where .. ": dump_payload must return a string, not " .. validate.kind(data) .. why)
      end
      return data
    end,
    load = function(data) return loaded(pcall(load, data)) end,
  }
end

local function module_wide()
  local dump, load = settings.dump_payload, settings.load_payload
  if not dump and not load then
    return codec.json
  end
  dump = dump or function(payload) return errors.guard(native.dump, payload, "payload") end
  return own(dump, load or load_json)
end

---The codec of a worker's setting.
---@param setting seriatim.CodecSetting
---@return seriatim.Codec
function codec.of(setting)
  if type(setting) == "table" then
    return own(setting[1], setting[2])
  end
  return codec[setting] or module_wide()
end

---Is it JSON alone, as the core reads and writes it?
---@param setting seriatim.CodecSetting
---@return boolean
function codec.is_json(setting)
  return setting == "json" or setting == nil and not settings.dump_payload and not settings.load_payload
end

---@param field string
---@param setting any
---@return seriatim.CodecSetting
function codec.check(field, setting)
  if setting == nil or setting == "json" or setting == "raw" then
    return setting
  end
  if validate.is_list(setting) and #setting == 2 and validate.is_callable(setting[1]) and validate.is_callable(setting[2]) then
    return { setting[1], setting[2] }
  end
  return validate.refuse(field, RULE, setting)
end

return codec
