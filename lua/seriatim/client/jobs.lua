-- The job tables of perform_async, checked and turned into what the core takes.

local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"

local jobs = {}

---Any bytes up to 1 KiB; an integer is written as text. It is handed out as a string.
---@alias seriatim.Id string|integer

---One job of perform_async; only the id is mandatory. null is nothing, but for the payload.
---@class seriatim.Job
---@field id seriatim.Id
---@field payload any  what JSON can say ("")
---@field score number?  orders the payloads of an id, ascending (arrival order)
---@field perform_in number?  earliest start, Unix seconds (now)
---@field perform_at number?  the same
---@field delay number?  the same in seconds from now
---@field deliver_at number?  the payload is not there before, joins and blocks nothing; Unix seconds
---@field deliver_in number?  the same in seconds from now
---@field on_waiting seriatim.OnWaiting?  (the worker's)
---@field context table<string, string>?  stays with the payload
---@field retry_count integer?  -1 and more; for tests and migration

-- definitions: job fields, written by script/embed from core/definitions/jobs.json

local KEYS = {
  "id", "payload", "score", "perform_in", "perform_at", "delay",
  "on_waiting", "context", "retry_count", "deliver_at", "deliver_in",
}

-- end of definitions
local TIMES = { "perform_in", "perform_at", "delay" }
local DELIVERY_TIMES = { "deliver_at", "deliver_in" }
local NOW, AT, DELAY = 0, 1, 2

for _, setting in ipairs(native.worker_settings()) do
  if setting.name == "on_waiting" then
    jobs.ON_WAITING = setting.words
  end
end

local KNOWN = {}
for _, key in ipairs(KEYS) do
  KNOWN[key] = true
end

local function field_of(at, key)
  return ("jobs[%d]: %s"):format(at, key)
end

---What stands at this key; null counts as nothing.
local function given(job, key)
  local value = job[key]
  if value == native.null then
    return nil
  end
  return value
end

local function known_keys(job, at)
  if type(job) ~= "table" then
    errors.misuse(("jobs[%d]: must be a table, not %s"):format(at, validate.kind(job)))
  end
  local known = {}
  for key, value in pairs(job) do
    if not KNOWN[key] then
      errors.misuse(("jobs[%d]: unknown key %s; known are %s"):format(at, validate.shown(key), table.concat(KEYS, ", ")))
    end
    known[key] = value
  end
  return known
end

---Tables of known keys; the caller's are left alone.
---@param list seriatim.Job[]
---@return seriatim.Job[]
function jobs.normalize(list)
  local normal = {}
  for at, job in ipairs(validate.list("jobs", list, "a list of tables")) do
    normal[at] = known_keys(job, at)
  end
  return normal
end

---The bytes of an id: a string's own, an integer's decimal digits.
---@param value seriatim.Id
---@param field string?
---@return string
function jobs.id_bytes(value, field)
  if type(value) == "string" then
    return value
  end
  return validate.digits(value) or validate.refuse(field or "id", "a string or an integer", value)
end

---Of ids that an operator gives.
---@param ids seriatim.Id[]
---@return string[]
function jobs.ids_bytes(ids)
  local bytes = {}
  for at, id in ipairs(validate.list("ids", ids)) do
    bytes[at] = jobs.id_bytes(id, ("ids[%d]"):format(at))
  end
  return bytes
end

local function id_of(job, at)
  if job.id == nil then
    errors.misuse(("jobs[%d]: id is missing"):format(at))
  end
  return jobs.id_bytes(job.id, field_of(at, "id"))
end

local function number(job, at, key, rule)
  local value = given(job, key)
  if value == nil then
    return nil
  end
  return validate.number(value) or validate.refuse(field_of(at, key), rule, value)
end

local function times_of(job, names)
  local keys = {}
  for _, key in ipairs(names) do
    if given(job, key) ~= nil then
      keys[#keys + 1] = key
    end
  end
  return keys
end

---A time that may be said by each of these keys, of which the last is seconds from now: how it is said, and the time.
local function time_of(job, at, names)
  local keys = times_of(job, names)
  if #keys == 0 then
    return NOW, 0
  end
  if #keys > 1 then
    errors.misuse(("jobs[%d]: %s exclude each other"):format(at, table.concat(keys, " and ")))
  end
  if keys[1] == names[#names] then
    return DELAY, number(job, at, keys[1], "a number of seconds")
  end
  return AT, number(job, at, keys[1], "a number of Unix seconds")
end

local function retry_count(job, at)
  local count = given(job, "retry_count")
  if count == nil then
    return -1
  end
  if validate.is_integer(count) and count >= -1 then
    return count
  end
  return validate.refuse(field_of(at, "retry_count"), "an integer of -1 or more", count)
end

local function on_waiting(job, at)
  local word = given(job, "on_waiting")
  return word ~= nil and validate.word(field_of(at, "on_waiting"), word, jobs.ON_WAITING)
end

local function context(job, at)
  local texts = given(job, "context")
  if texts == nil then
    return false
  end
  if type(texts) ~= "table" then
    validate.refuse(field_of(at, "context"), "a table of strings by strings", texts)
  end
  for key, value in pairs(texts) do
    if type(key) ~= "string" then
      errors.misuse(("jobs[%d].context: %s cannot be a key"):format(at, validate.kind(key)))
    end
    if type(value) ~= "string" then
      errors.misuse(("jobs[%d].context[%s]: must be a string, not %s"):format(at, validate.shown(key), validate.kind(value)))
    end
  end
  return next(texts) ~= nil and errors.guard(native.dump, texts, ("jobs[%d].context"):format(at))
end

local function row(job, at, codec)
  local when, time = time_of(job, at, TIMES)
  local deliver_when, deliver_time = time_of(job, at, DELIVERY_TIMES)
  local payload = job.payload
  if payload == nil then
    payload = codec.nothing
  end
  return {
    id_of(job, at),
    codec.dump(payload, ("jobs[%d].payload"):format(at)),
    number(job, at, "score", "a number") or false,
    when,
    time,
    retry_count(job, at),
    on_waiting(job, at),
    context(job, at),
    deliver_when ~= NOW and deliver_when or nil,
    deliver_when ~= NOW and deliver_time or nil,
  }
end

---What the core takes of jobs, checked. What is usual goes through C; what is not, or is wrong, is for those who can say so.
---@param list seriatim.Job[]
---@param codec seriatim.Codec
---@return seriatim.JobRow[]
function jobs.checked(list, codec)
  return codec.native and native.rows(list, codec.native == "raw") or jobs.rows(jobs.normalize(list), codec)
end

---@param normal seriatim.Job[]
---@param codec seriatim.Codec
---@return seriatim.JobRow[]
function jobs.rows(normal, codec)
  local rows = {}
  for at, job in ipairs(normal) do
    rows[at] = row(job, at, codec)
  end
  return rows
end

return jobs
