-- The bytes that Redis keeps of an error: what dump_error makes of its text.

local log = require "seriatim.log"
local settings = require "seriatim.settings"

local MOST_BYTES = 65536 -- the core keeps no more of a stored error: cutting what dump_error made would spoil it for load_error

local stored_error = {}

---@return string? dumped
---@return string? reason  why dump_error gave no text that can be stored
local function dump_error(text)
  local ran, dumped = pcall(settings.dump_error, text)
  if not ran then
    return nil, "dump_error raised " .. log.brief(log.describe(dumped))
  end
  if type(dumped) ~= "string" then
    return nil, "dump_error gave no string but " .. type(dumped)
  end
  if #dumped > MOST_BYTES then
    return nil, ("dump_error gave %d bytes, of which %d may be stored"):format(#dumped, MOST_BYTES)
  end
  return dumped
end

---Where dump_error fails: the bytes of the first line and of the reason, which is logged.
---@param text string
---@param queue_name string  for the log
---@return string
function stored_error.of(text, queue_name)
  text = log.cut(text, MOST_BYTES)
  local stored, reason = dump_error(text)
  if stored then
    return stored
  end
  log.error("hook", reason, { q = queue_name })
  local note = ("%s\n(%s; only the first line of this error is stored)"):format(log.brief(text), reason)
  return dump_error(note) or note
end

---The text of what is stored. What load_error cannot read stays as it is stored.
---@param stored string
---@return string
function stored_error.loaded(stored)
  local ran, text = pcall(settings.load_error, stored)
  return ran and text or stored
end

return stored_error
