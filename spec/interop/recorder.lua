-- The application that the agent's servers load in each thread: one worker that writes what it was given to files of the
-- agent's folder.

local log = require "seriatim.log"
local seriatim = require "seriatim"
local wire = require "wire"

local recorder = {}

local function run_of(id, payloads, batch)
  return {
    id = id,
    payloads = payloads,
    scores = batch:scores(id),
    contexts = batch:contexts(id),
    retry_count = batch:retry_count(id),
    error = batch:error(id),
    fence = batch:fence(id),
  }
end

---Options of a worker: the settings of a request, whose retry_in is a number.
function recorder.options(queue, settings)
  local options = { queue_name = queue }
  for name, value in pairs(settings) do
    options[name] = value
  end
  options.retry_in = function() return settings.retry_in or 60 end
  return options
end

---folder: the agent's; `worker` in it says what to do.
function recorder.serve(folder)
  log.output = log.to(io.stderr)
  seriatim.format_error = tostring -- the pairs compare messages
  local given = wire.load_lines(folder .. "/worker")[1]
  local options = recorder.options(given.queue, given.settings)
  function options.perform(payloads_by_id, batch)
    for id, payloads in pairs(payloads_by_id) do
      wire.append(folder .. "/runs", run_of(id, payloads, batch))
    end
    if given.fail ~= seriatim.null then
      error(given.fail, 0)
    end
  end
  function options.retries_exhausted(jobs)
    for _, job in ipairs(jobs) do
      wire.append(folder .. "/exhausted", job)
    end
  end
  seriatim.workers = { seriatim.worker(options) }
end

return recorder
