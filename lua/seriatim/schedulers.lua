-- Which shard of a group goes next. Ours are the core's; any function that gets the list of candidates and returns one of
-- them (or nil, to wait) is one, too.

local schedulers = {}

---A shard that has something to run.
---@class seriatim.Candidate
---@field worker seriatim.Worker
---@field index integer  from 0
---@field lag number  seconds since its oldest id became due
---@field size integer  claimed ids

---One of the core's, by its number there.
---@class seriatim.BuiltinScheduler
---@field number integer
local Builtin = {}
Builtin.__index = Builtin

---@alias seriatim.Scheduler seriatim.BuiltinScheduler|fun(candidates: seriatim.Candidate[]): seriatim.Candidate?

local function builtin(number)
  return setmetatable({ number = number }, Builtin)
end

local LAG, SEQ, PRIORITY = builtin(0), builtin(1), builtin(2)

---@param value any
---@return boolean
function schedulers.is_builtin(value)
  return getmetatable(value) == Builtin
end

---The shard that waits longest (default).
---@return seriatim.Scheduler
function schedulers.build_lag_scheduler()
  return LAG
end

---One shard after another.
---@return seriatim.Scheduler
function schedulers.build_seq_scheduler()
  return SEQ
end

---The worker with the highest `priority`, among equals the shard that waits longest.
---@return seriatim.Scheduler
function schedulers.build_priority_scheduler()
  return PRIORITY
end

return schedulers
