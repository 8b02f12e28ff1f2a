-- Pushes jobs.

local check = require "seriatim.check"
local errors = require "seriatim.errors"
local jobs = require "seriatim.jobs"
local middlewares = require "seriatim.middlewares"
local pool = require "seriatim.pool"
local settings = require "seriatim.settings"

local client = {}

---What a push did.
---@class seriatim.PushResult
---@field added integer  jobs that made a new waiting id
---@field folded integer  jobs that united with an id that waits
---@field refused integer  jobs that on_waiting reject turned away
---@field refused_at integer[]  their places in the call, from 1

local function result_of(added, folded, places)
  return { added = added, folded = folded, refused = #places, refused_at = places }
end

---@param worker seriatim.Worker
---@param rows seriatim.JobRow[]
---@return seriatim.PushResult?
---@return seriatim.Error? err
function client.write(worker, rows)
  if #rows == 0 then
    return result_of(0, 0, {})
  end
  local added, folded, places = pool.ask(function(connection)
    return connection:call("push", connection:number(worker:queue_settings()), rows, nil)
  end)
  if not added then
    return nil, folded
  end
  return result_of(added, folded, places)
end

local function through(chain, worker, list, write)
  local result, err = result_of(0, 0, {}), nil
  middlewares.call(chain, worker, list, function()
    result, err = write(worker, jobs.rows(jobs.normalize(list), worker:payload_codec()))
    return result, err
  end)
  return result, err
end

---Checks everything, passes the jobs through the client middlewares, checks again and writes.
---@param worker seriatim.Worker
---@param list seriatim.Job[]
---@return seriatim.PushResult?
---@return seriatim.Error? err
function client.push(worker, list)
  return client.push_by(client.write, worker, list)
end

---As push, with another function that writes the rows.
---@param write fun(worker: seriatim.Worker, rows: seriatim.JobRow[]): seriatim.PushResult?, seriatim.Error?
function client.push_by(write, worker, list)
  if type(worker) ~= "table" or not worker.payload_codec then
    errors.misuse("push needs a worker, as in worker:perform_async(jobs), not " .. check.kind(worker))
  end
  local normal = jobs.normalize(list)
  local chain = settings.client_middlewares
  if #chain == 0 then
    return write(worker, jobs.rows(normal, worker:payload_codec()))
  end
  jobs.rows(normal, worker:payload_codec())
  return through(chain, worker, normal, write)
end

return client
