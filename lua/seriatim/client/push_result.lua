-- What becomes of a push.

local inspect = require "seriatim.client.inspect"
local errors = require "seriatim.errors"
local log = require "seriatim.log"

local push_result = {}

---What a push did.
---@class seriatim.PushResult
---@field added integer  jobs that made a new waiting id
---@field folded integer  jobs that united with an id that waits
---@field refused integer  jobs that on_waiting reject or unique turned away
---@field refused_at integer[]  their places in the call, from 1
---@field scheduled integer  jobs that arrive later, at their deliver_at
---@field stale integer  jobs whose score was not above the one that is remembered of their id (remember_score): they are not kept
---@field handles (string|false)[]  one a job, where the push was given handle = true or has a job with deliver_at; else empty. It names the
---payload for actions:cancel and actions:reschedule. A job that was folded into an equal payload has that one's; false: it was not kept

local PushResult = inspect.class("seriatim.PushResult", { "added", "folded", "refused", "refused_at", "scheduled", "stale", "handles" })

---@return seriatim.PushResult
function push_result.of(added, folded, places, scheduled, stale, handles)
  return setmetatable({
    added = added,
    folded = folded,
    refused = #places,
    refused_at = places,
    scheduled = scheduled or 0,
    stale = stale or 0,
    handles = handles or {},
  }, PushResult)
end

---@return nil, seriatim.Error
function push_result.not_replicated(shortage, result)
  local err = errors.new("NOT_REPLICATED", shortage)
  err.result = result
  return nil, err
end

local warned = {}

---Each connection of the pool finds the same difference.
function push_result.warn_once(text)
  if not warned[text] then
    warned[text] = true
    log.warn("warning", text)
  end
end

return push_result
