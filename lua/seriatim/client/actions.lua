-- What an operator does to a worker's queue.

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

local PERFORM_ALL, KILL_FAILED, DELETE_FAILED, MORGUE_QUEUE_UP_ALL, MORGUE_DELETE_ALL = 0, 1, 2, 3, 4
local PAUSE, RESUME, DELETE, MORGUE_QUEUE_UP, MORGUE_DELETE, PARK, UNPARK = 5, 6, 7, 8, 9, 10, 11
local PERFORM_NOW, UNPARK_ALL, DROP_PAYLOAD, MORGUE_DROP_PAYLOAD, DELETE_QUEUE = 12, 13, 14, 15, 16
local PERFORM_ALL_FAILED, KILL = 17, 18

---`worker.actions`. Each answers with the number of ids that it changed (pause and resume: of shards), or with nil and a
---seriatim.Error. "All" means what is there when the action begins.
---@class seriatim.Actions
local Actions = {}
Actions.__index = Actions

---@param worker seriatim.Worker
---@return seriatim.Actions
function actions.new(worker)
  return setmetatable({ worker = worker }, Actions)
end

local function act(self, kind, texts)
  return pool.ask(function(connection)
    return connection:call("action", connection:number(self.worker:queue_settings()), kind, texts, nil)
  end)
end

local function act_on(self, kind, ids)
  local keys = jobs.ids_bytes(ids)
  if #keys == 0 then
    return 0
  end
  return act(self, kind, keys)
end

local function act_on_payload(self, kind, id, payload)
  return act(self, kind, { jobs.id_bytes(id), self.worker:payload_codec().dump(payload, "payload") })
end

---Makes all waiting ids due now.
---@return integer?
---@return seriatim.Error? err
function Actions:perform_all_jobs_now()
  return act(self, PERFORM_ALL)
end

---Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change.
---@return integer?
---@return seriatim.Error? err
function Actions:perform_all_failed_jobs_now()
  return act(self, PERFORM_ALL_FAILED)
end

---Moves all waiting ids that failed before to the morgue.
---@return integer?
---@return seriatim.Error? err
function Actions:kill_all_failed_jobs()
  return act(self, KILL_FAILED)
end

---Deletes all waiting ids that failed before.
---@return integer?
---@return seriatim.Error? err
function Actions:delete_all_failed_jobs()
  return act(self, DELETE_FAILED)
end

---Moves all dead ids back to the waiting ones, due now.
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_queue_up_all_jobs()
  return act(self, MORGUE_QUEUE_UP_ALL)
end

---Deletes all dead ids.
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_delete_all_jobs()
  return act(self, MORGUE_DELETE_ALL)
end

---Stops claims of the queue until resume; running jobs go on. Answers with shards.
---@return integer?
---@return seriatim.Error? err
function Actions:pause()
  return act(self, PAUSE)
end

---Answers with shards.
---@return integer?
---@return seriatim.Error? err
function Actions:resume()
  return act(self, RESUME)
end

---Deletes waiting and scheduled ids; a running id is not retried if it fails.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:delete(ids)
  return act_on(self, DELETE, ids)
end

---Moves dead ids back to the waiting ones, due now.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_queue_up(ids)
  return act_on(self, MORGUE_QUEUE_UP, ids)
end

---Deletes dead ids.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_delete(ids)
  return act_on(self, MORGUE_DELETE, ids)
end

---Parks the ids with all their payloads: they do not run until unpark.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:park(ids)
  return act_on(self, PARK, ids)
end

---Moves parked ids back to the waiting ones, due now, with their retry_count reset.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:unpark(ids)
  return act_on(self, UNPARK, ids)
end

---Moves all parked ids back to the waiting ones, due now, with their retry_count reset.
---@return integer?
---@return seriatim.Error? err
function Actions:unpark_all()
  return act(self, UNPARK_ALL)
end

---Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:perform_now(ids)
  return act_on(self, PERFORM_NOW, ids)
end

---Moves waiting ids that failed before to the morgue.
---@param ids seriatim.Id[]
---@return integer?
---@return seriatim.Error? err
function Actions:kill(ids)
  return act_on(self, KILL, ids)
end

---Drops one payload of a waiting or parked id, the first of equal ones; the id goes with its last. Of a running id, one that
---waits behind the run: what runs has been delivered. Answers 1, or 0 where there is none.
---@param id seriatim.Id
---@param payload any
---@return integer?
---@return seriatim.Error? err
function Actions:drop_payload(id, payload)
  return act_on_payload(self, DROP_PAYLOAD, id, payload)
end

---The same of a dead id.
---@param id seriatim.Id
---@param payload any
---@return integer?
---@return seriatim.Error? err
function Actions:morgue_drop_payload(id, payload)
  return act_on_payload(self, MORGUE_DROP_PAYLOAD, id, payload)
end

local function handle_text(handle)
  return type(handle) == "string" and handle or validate.refuse("handle", "a string", handle)
end

---Removes one payload, by the handle that its push answered, while it is scheduled, waits, is in back-off or parked; with the last
---one the id goes. False: it is being delivered, was, is dead or gone.
---@param handle string
---@return boolean?
---@return seriatim.Error? err
function Actions:cancel(handle)
  handle_text(handle)
  return pool.ask(function(connection)
    return connection:call("cancel", connection:number(self.worker:queue_settings()), handle, nil)
  end)
end

---Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; in the past: now. False: it was
---delivered, is dead or gone.
---@param handle string
---@param at number  Unix seconds
---@return boolean?
---@return seriatim.Error? err
function Actions:reschedule(handle, at)
  handle_text(handle)
  local seconds = validate.number(at) or validate.refuse("at", "a number of Unix seconds", at)
  return pool.ask(function(connection)
    return connection:call("reschedule", connection:number(self.worker:queue_settings()), handle, seconds, nil)
  end)
end

---Deletes the queue itself: layout, settings and, if forced, what it holds; answers 1. The next push or server of the worker makes
---it anew. Raises misuse while a node serves it, where it holds ids and is not forced, and where there is none.
---@param options { force: boolean? }?
---@return integer?
---@return seriatim.Error? err
function Actions:delete_queue(options)
  local force = validate.options(options, { "force" }).force
  return act(self, DELETE_QUEUE, force and { self.worker.queue_name } or nil)
end

---Proves what is stored of the queue, in slices.
---@param options { repair: boolean? }?  repair: mend what can be mended without losing a payload
---@return seriatim.CheckResult?
---@return seriatim.Error? err
function Actions:check(options)
  local repair = validate.options(options, { "repair" }).repair
  validate.flag("repair", repair or false)
  local looked_at, findings = pool.ask(function(connection)
    return connection:call("check", connection:number(self.worker:queue_settings()), repair or false, nil)
  end)
  if not looked_at then
    return nil, findings
  end
  return { looked_at = looked_at, findings = findings }
end

validate.colons(Actions, "actions")

return actions
