-- Chooses which shard of a group is next. The built-in schedulers are in the core. An application may give its own: a
-- function that gets the list of candidates and returns one of them (or nil, to wait). The list is the scheduler's own: it
-- may sort or shorten it.

local validate = require "seriatim.client.validate"
local settings = require "seriatim.settings"

local schedulers = {}

---A shard that has something to run.
---@class seriatim.Candidate
---@field worker seriatim.Worker
---@field index integer  from 0
---@field lag number  seconds since its oldest id became due
---@field size integer  claimed ids

---One of the core's by its number there, or a function.
---@alias seriatim.Scheduler integer|fun(candidates: seriatim.Candidate[]): seriatim.Candidate?

local LAG, SEQ, PRIORITY = 0, 1, 2

local RULE = "give one of seriatim's schedulers or a function (list of candidates -> one of them, or nil)"

---What seriatim.build_scheduler gives. Raises USAGE: it is no scheduler.
---@return seriatim.Scheduler
function schedulers.build()
  local scheduler = settings.build_scheduler()
  if not validate.is_callable(scheduler) and scheduler ~= LAG and scheduler ~= SEQ and scheduler ~= PRIORITY then
    validate.misuse("build_scheduler", RULE, scheduler)
  end
  return scheduler
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

settings.set_default("build_scheduler", schedulers.build_lag_scheduler)

return schedulers
