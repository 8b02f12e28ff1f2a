-- Tells what kind of error ended the command: misuse, no Redis, or any other.
local errors = require "seriatim.errors"
local log = require "seriatim.log"

-- The kinds of errors that mean that Redis cannot be used.
local NO_REDIS = { IO = true, PROTOCOL = true, TIMEOUT = true, AUTH = true, LOADING = true }

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

---What the command says of a Redis that cannot be used. nil: the error is another.
---@param raised any
---@return string?
function failure.no_redis(raised)
  if not errors.is(raised) or not NO_REDIS[raised.kind] then
    return nil
  elseif raised.message:find("^timed out: ") then -- Redis answers: no server moves the ids or shards that the call waits for
    return nil
  end
  return raised.kind == "AUTH" and raised.message or ("no Redis: %s"):format(raised.message) -- AUTH: Redis answers
end

return failure
