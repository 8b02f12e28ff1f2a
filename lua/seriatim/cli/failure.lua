-- Tells what kind of error ended the command: misuse, no Redis, or any other.
local redis_url = require "seriatim.client.redis_url"
local errors = require "seriatim.errors"
local log = require "seriatim.log"

-- By the kinds of errors that mean that Redis cannot be reached: what to do, before the name of what holds the URL.
local START = "; start Redis there, or correct "
local CURES = { IO = START, PROTOCOL = START, TIMEOUT = START, AUTH = "", LOADING = "" }

local failure = {}

---A message handler for xpcall.
---@param raised any
---@return { raised: any, traceback: string }
function failure.seen(raised)
  return { raised = raised, traceback = debug.traceback(log.describe(raised), 2) }
end

---The text of misuse without its place and our name: in the command it is the words that are wrong. nil: it is not misuse.
---@param raised any
---@return string?
function failure.misuse(raised)
  if errors.is(raised, "USAGE") or errors.is(raised, "INVALID") then
    return raised.message
  end
  return type(raised) == "string" and (raised:match("^seriatim: ([^\n]*)") or raised:match("^[^\n]-:%d+: seriatim: ([^\n]*)")) or nil
end

---What the command says of a Redis that cannot be reached: the error, and what to do. nil: the error is another.
---@param raised any
---@return string?
function failure.no_redis(raised)
  local cure = errors.is(raised) and CURES[raised.kind]
  local name = cure and redis_url.named_by()
  return cure and ("no Redis: %s%s"):format(raised.message, name and cure ~= "" and cure .. name or "") or nil
end

return failure
