-- The actions of an operator on a worker's queue.

local jobs = require "seriatim.client.jobs"
local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"

local actions = {}

---Something that should not be; detail in one sentence.
---@class seriatim.Finding
---@field shard integer
---@field kind string
---@field detail string
---@field id string?
---@field repaired boolean

---@class seriatim.CheckResult
---@field looked_at integer  how many records
---@field findings seriatim.Finding[]

---`worker.actions`. Each returns the number of ids that it changed, unless said, or nil and a seriatim.Error. "All" means what is
---there when the action begins.
---@class seriatim.Actions
local Actions = {}
Actions.__index = Actions

---@param worker seriatim.Worker
---@return seriatim.Actions
function actions.new(worker)
  return setmetatable({ worker = worker }, Actions)
end

-- name: as core/definitions/operations.json has it
local function act(self, name, texts)
  return pool.ask(function(connection)
    return connection:call("action", connection:number(self.worker:queue_settings()), name, texts, nil)
  end)
end

local function act_on(self, name, ids)
  local keys = jobs.ids_bytes(ids)
  if #keys == 0 then
    return 0
  end
  return act(self, name, keys)
end

local function act_on_payload(self, name, id, payload)
  return act(self, name, { jobs.id_bytes(id), self.worker:payload_codec().dump(payload, "payload") })
end

local function act_on_shards(self, name, shards)
  return act(self, name, { validate.digits(shards) or validate.refuse("shards", "an integer", shards) })
end

-- ...: the time, if the action takes one
local function act_on_handle(self, name, handle, ...)
  local texts = { type(handle) == "string" and handle or validate.refuse("handle", "a string", handle) }
  if select("#", ...) > 0 then
    texts[2] = ("%.17g"):format(validate.number(...) or validate.refuse("at", "a number of Unix seconds", ...))
  end
  local count, err = act(self, name, texts)
  if not count then
    return nil, err
  end
  return count == 1
end

---The only option of a call; nil is false.
local function flag_of(options, name)
  return validate.flag(name, validate.options(options, { name })[name] or false)
end

-- definitions: actions, written by script/embed from core/definitions/operations.json

---Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:perform_now(ids)
  return act_on(self, "perform_now", ids)
end

---Makes all waiting ids due now.
---@return integer?
---@return seriatim.Error? err
function Actions:perform_all_jobs_now()
  return act(self, "perform_all_jobs_now")
end

---Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change.
---@return integer?
---@return seriatim.Error? err
function Actions:perform_all_failed_jobs_now()
  return act(self, "perform_all_failed_jobs_now")
end

---Parks the ids with all their payloads: they do not run until unpark. A running id is parked when its run ends. Returns how many of the
---ids were there, parked before or not.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:park(ids)
  return act_on(self, "park", ids)
end

---Moves parked ids back to the waiting ones, due now, as if they had never failed.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:unpark(ids)
  return act_on(self, "unpark", ids)
end

---Moves all parked ids back to the waiting ones, due now, as if they had never failed.
---@return integer?
---@return seriatim.Error? err
function Actions:unpark_all()
  return act(self, "unpark_all")
end

---Deletes waiting and scheduled ids; a running id is not retried if it fails.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:delete(ids)
  return act_on(self, "delete", ids)
end

---Deletes all waiting ids that failed before.
---@return integer?
---@return seriatim.Error? err
function Actions:delete_all_failed_jobs()
  return act(self, "delete_all_failed_jobs")
end

---Moves waiting ids that failed before to the morgue; the others stay.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:kill(ids)
  return act_on(self, "kill", ids)
end

---Moves all waiting ids that failed before to the morgue.
---@return integer?
---@return seriatim.Error? err
function Actions:kill_all_failed_jobs()
  return act(self, "kill_all_failed_jobs")
end

---Moves dead ids back to the waiting ones, due now; those of a running id wait behind its run, and a parked id stays parked.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_queue_up(ids)
  return act_on(self, "morgue_queue_up", ids)
end

---Moves all dead ids back to the waiting ones, as morgue_queue_up does.
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_queue_up_all_jobs()
  return act(self, "morgue_queue_up_all_jobs")
end

---Deletes dead ids.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_delete(ids)
  return act_on(self, "morgue_delete", ids)
end

---Deletes all dead ids.
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_delete_all_jobs()
  return act(self, "morgue_delete_all_jobs")
end

---Deletes one payload, by the handle that its push returned, while it is scheduled, waits, is in back-off or parked; the id goes with its
---last one. False: it is being delivered, was delivered, is dead or no longer there. After a lost connection false may mean that this very
---call removed it.
---@param handle string
---@return boolean?
---@return seriatim.Error? err
function Actions:cancel(handle)
  return act_on_handle(self, "cancel", handle)
end

---Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; one in the past means now. False: it is being
---delivered, was delivered, is dead or no longer there, or its id is parked or waits after a run that was not done.
---@param handle string
---@param at number  Unix seconds
---@return boolean?
---@return seriatim.Error? err
function Actions:reschedule(handle, at)
  return act_on_handle(self, "reschedule", handle, at)
end

---Deletes one payload of a waiting or parked id, of equal ones the one with the lowest score; the id goes with its last one. Of a running
---id, one that waits behind the run. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that this very
---call removed it.
---@param id seriatim.Id
---@param payload any
---@return integer?
---@return seriatim.Error? err
function Actions:drop_payload(id, payload)
  return act_on_payload(self, "drop_payload", id, payload)
end

---Deletes one payload of a dead id. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that this very
---call removed it.
---@param id seriatim.Id
---@param payload any
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_drop_payload(id, payload)
  return act_on_payload(self, "morgue_drop_payload", id, payload)
end

---Stops claims of the queue until resume; running jobs go on. Returns how many shards were not paused before.
---@return integer?
---@return seriatim.Error? err
function Actions:pause()
  return act(self, "pause")
end

---Undoes pause. Returns how many shards were paused.
---@return integer?
---@return seriatim.Error? err
function Actions:resume()
  return act(self, "resume")
end

---Gives the queue another number of shards: its servers move its ids while it is in use, and the metrics say how far they are. Returns 1,
---or 0 if the queue has this number already or its ids are on their way to it.
---@param shards integer  1 to 4096
---@return integer?
---@return seriatim.Error? err
function Actions:reshard(shards)
  return act_on_shards(self, "reshard", shards)
end

-- end of definitions

---Deletes the queue itself: layout, settings and, if forced, what it holds; answers 1. The next push or server of the worker makes
---it anew. Raises misuse while a node serves it, where it holds ids and is not forced, and where there is none.
---@param options { force: boolean? }?  force: delete also the ids that it holds
---@return integer?
---@return seriatim.Error? err
function Actions:delete_queue(options)
  return act(self, "delete_queue", flag_of(options, "force") and { self.worker.queue_name } or nil)
end

---Proves what is stored of the queue, in slices.
---@param options { repair: boolean? }?  repair: mend what can be mended without losing a payload
---@return seriatim.CheckResult?
---@return seriatim.Error? err
function Actions:check(options)
  local repair = flag_of(options, "repair")
  local looked_at, findings = pool.ask(function(connection)
    return connection:call("check", connection:number(self.worker:queue_settings()), repair, nil)
  end)
  if not looked_at then
    return nil, findings
  end
  return { looked_at = looked_at, findings = findings }
end

validate.colons(Actions, "actions")

return actions
