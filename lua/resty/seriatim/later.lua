-- Pushes from phases that allow no connection: a bounded queue of each nginx worker, written in order by a timer.

local phases = require "resty.seriatim.phases"
local timers = require "resty.seriatim.timers"
local transport = require "resty.seriatim.transport"
local Connection = require "seriatim.client.connection"
local pool = require "seriatim.client.pool"
local push = require "seriatim.client.push"
local push_result = require "seriatim.client.push_result"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local MOST_ROWS = 1000 -- of one push
local MOST_PUSHES = 1000 -- of one timer, whose memory nginx frees at its end
local PAUSE = 0.5 -- seconds, when Redis takes nothing
local SHORTEST = 0.01 -- seconds of a push that is tried
-- Kinds of errors after which Redis may take later what it did not take now.
local PASSING = {
  FULL = true, IO = true, LOADING = true, POOL_TIMEOUT = true, READONLY = true, TIMEOUT = true, UNKNOWN_OUTCOME = true,
}
local UNWRITTEN, UNKNOWN = "-", "?" -- what became of a job
local NOWHERE = "unix:///" -- of the connection that only checks

local later = { limit = 10000 }

---What push_later did with jobs, in this nginx worker.
---@class seriatim.LaterCounts
---@field queued integer  they wait now
---@field pushed integer  were written
---@field refused integer  found the queue full
---@field failed integer  could not be written: the log says why
local counts = { queued = 0, pushed = 0, refused = 0, failed = 0 }

local items, first, last = {}, 1, 0 -- items[first .. last]
local is_writing, held_up = false, false
local last_ms -- when the nginx worker ends: how long what waits may be written (ms); nil: nothing has waited since then
local under_way -- the batch that is being written: rows, count of its items, and the connection, once there is one; nil: none
local checker, checked_namespace

---@return seriatim.LaterCounts
function later.counts()
  return { queued = counts.queued, pushed = counts.pushed, refused = counts.refused, failed = counts.failed }
end

-- ---- in

---A connection that is never made: the core's checks without Redis.
local function check(worker, rows)
  if checked_namespace ~= settings.namespace then
    checker, checked_namespace = errors.must(Connection.open(NOWHERE, settings.namespace, transport)), settings.namespace
  end
  errors.must(checker.transport:check("push", checker:number(worker:queue_settings()), rows))
end

local function full(count)
  counts.refused = counts.refused + count
  local text = "%d jobs wait for a connection to Redis, the most is %d; these %d were not taken"
  return nil, errors.new("QUEUE_FULL", text:format(counts.queued, later.limit, count))
end

local function enqueue(worker, rows)
  if #rows == 0 then
    return 0
  end
  if counts.queued + #rows > later.limit then
    return full(#rows)
  end
  check(worker, rows)
  last = last + 1
  items[last] = { worker = worker, rows = rows }
  counts.queued = counts.queued + #rows
  later.arm(0)
  return #rows
end

---Takes jobs for a push that happens soon after, in the order of these calls. Checks everything now, and calls the client
---middlewares now. Works in every phase but init_by_lua and exit_worker_by_lua, where nothing is called.
---@param worker seriatim.Worker
---@param list seriatim.Job[]
---@return integer? count  of the jobs taken; nil where the queue is full, or the phase has no timers
---@return seriatim.Error? err  kind QUEUE_FULL, or UNSUPPORTED
function later.push(worker, list)
  local refusal = phases.refusal_later()
  if refusal then
    return nil, refusal
  end
  local result, err = push.push_by(enqueue, worker, list)
  if result == nil then
    return nil, err
  end
  return type(result) == "number" and result or 0
end

-- ---- out

---The jobs of the first items that have one worker, and how many items those are.
local function first_batch()
  local batch, at = { worker = items[first].worker, rows = {} }, first
  while at <= last and items[at].worker == batch.worker and (at == first or #batch.rows + #items[at].rows <= MOST_ROWS) do
    for _, row in ipairs(items[at].rows) do
      batch.rows[#batch.rows + 1] = row
    end
    at = at + 1
  end
  batch.count = at - first
  return batch
end

---Takes the batch out, which the first items are. Of its rows those in `left` stay.
local function replace(batch, left)
  for _ = 1, batch.count do
    items[first] = nil
    first = first + 1
  end
  if #left > 0 then
    first = first - 1
    items[first] = { worker = batch.worker, rows = left }
  end
  counts.queued = counts.queued - #batch.rows + #left
end

---@return string? letters  one a job, of the core's seriatim_job_outcome; nil: what `err` says is true of all
---@return seriatim.Error? err
local function read(outcomes, err, _, warning)
  if not outcomes then
    return nil, err
  end
  if warning then
    push_result.warn_once(warning)
  end
  local kind, message, letters = outcomes[1][4], outcomes[1][5], outcomes[1][9]
  if kind == "REPLICAS" then
    log.warn("later", message)
    return nil
  end
  return letters, kind and errors.new(kind, message) or nil
end

---Writes the batch in one push, which takes at most `seconds`. Returns what read returns.
local function write(connection, batch, replicas, seconds)
  batch.connection = connection
  local number = connection:number(batch.worker:queue_settings())
  return read(connection:call("pipeline", { { number, batch.rows, replicas, settings.wait_timeout, seconds, false } }, nil))
end

---Which rows stay, because Redis may take them later, and how many are lost. No row stays that would come behind a later one of its
---id: a Redis that is full may refuse one part of a push to a shard and take the next. Any other error that passes ends the push, and
---nothing was sent to a shard behind what was not written there.
local function sort_out(rows, letters, err, keep)
  local left, lost, written = {}, 0, {} -- written: the last place of each id
  local all = err and (errors.is(err, "UNKNOWN_OUTCOME") and UNKNOWN or UNWRITTEN)
  local function letter_of(place)
    return letters and letters:sub(place, place) or all
  end
  for place, row in ipairs(rows) do
    if letter_of(place) ~= UNWRITTEN then
      written[row[1]] = place
    end
  end
  for place, row in ipairs(rows) do
    local letter = letter_of(place)
    if letter == UNWRITTEN and keep and PASSING[err.kind] and place > (written[row[1]] or 0) then
      left[#left + 1] = row
    elseif letter == UNWRITTEN or letter == UNKNOWN then
      lost = lost + 1
    end
  end
  return left, lost
end

local function lose(count, raised)
  counts.failed = counts.failed + count
  log.error("later", ("%d jobs of push_later are lost: %s"):format(count, log.describe(raised)))
end

---Takes out of the batch what was written and what is lost. False: jobs stay, because Redis does not take them now.
local function settle(batch, letters, err, keep)
  local left, lost = sort_out(batch.rows, letters, err, keep)
  replace(batch, left)
  counts.pushed = counts.pushed + #batch.rows - #left - lost
  if lost > 0 then
    lose(lost, err)
  end
  return #left == 0
end

---ask: calls its function with a connection, and returns what that returns.
---False: jobs stay, because Redis does not take them now.
local function push_one(ask, replicas, seconds, keep)
  local batch = first_batch()
  under_way = batch
  local ok, letters, err = pcall(ask, function(connection)
    return write(connection, batch, replicas, seconds)
  end)
  under_way = nil
  if not ok then
    letters, err, keep = nil, letters, false
  end
  local is_settled = settle(batch, letters, err, keep)
  if not is_settled and not held_up then
    log.warn("later", ("%d jobs of push_later wait: %s"):format(counts.queued, log.describe(err)))
  end
  held_up = not is_settled
  return is_settled
end

---Gives up what waits: the nginx worker ends.
local function lose_all(raised)
  local count = counts.queued
  items, first, last, counts.queued = {}, 1, 0, 0
  lose(count, raised)
end

local function too_late()
  return errors.new("TIMEOUT", "the nginx worker ends")
end

---The seconds of the next push, and whether what Redis does not take may be kept: at the end of the nginx worker all pushes together
---have the time of one.
local function patience()
  if not ngx.worker.exiting() then
    return settings.push_timeout, true
  end
  last_ms = last_ms or native.now_ms() + settings.push_timeout * 1000
  return (last_ms - native.now_ms()) / 1000, false
end

local function flush()
  for _ = 1, MOST_PUSHES do
    if first > last then
      last_ms = nil -- a request that still runs may push more
      return nil
    end
    local seconds, keep = patience()
    if seconds < SHORTEST then
      lose_all(too_late())
    elseif not push_one(pool.ask, settings.wait_replicas, seconds, keep) then
      return PAUSE
    end
  end
  return 0
end

local timer = timers.new(function()
  is_writing = true
  local ok, pause = pcall(flush)
  is_writing = false
  if not ok then
    log.error("crash", log.describe(pause))
  end
  if first <= last then
    later.arm(ok and pause or PAUSE)
  end
end)

function later.arm(seconds)
  if is_writing then
    return
  end
  local made, err = timer:arm(ngx.worker.exiting() and 0 or seconds)
  if not made then
    log.warn("later", "nginx refuses a timer; the next push_later tries again: " .. tostring(err))
  end
end

-- ---- where there is no timer any more

local function write_blocking(connection, deadline)
  local left = (deadline - native.now_ms()) / 1000
  if left < SHORTEST then
    return lose_all(too_late())
  end
  push_one(function(use) return use(connection) end, 0, left, false)
end

---Of the batch that the timer was writing, the jobs that were sent and not answered may be written: they are not sent again.
local function break_off()
  local batch = under_way
  under_way = nil
  if batch and batch.connection then
    local letters, err = read(batch.connection.transport:break_off())
    settle(batch, letters, err, true)
  end
end

---Writes what waits over a blocking connection, for at most `seconds`: for exit_worker_by_lua_block, where nginx has
---neither cosockets nor timers.
---@param seconds number
function later.flush_blocking(seconds)
  break_off()
  if first > last then
    return
  end
  local deadline = native.now_ms() + seconds * 1000
  local current = pool.current()
  local connection = current and Connection.open(current.url, settings.namespace)
  while connection and first <= last do
    write_blocking(connection, deadline)
  end
  if connection then
    connection:close()
  end
end

return later
