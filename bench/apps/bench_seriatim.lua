-- Seriatim.

local count = require "count"
local log = require "seriatim.log"
local seriatim = require "seriatim"

local BlankWorker = seriatim.worker {
  name = "BlankWorker",
  perform = function() count.up() end,
}

seriatim.workers = { BlankWorker }
log.level = log.WARN

local app = {}

function app.single(id)
  assert(BlankWorker:perform_async { { id = id } })
end

function app.pipelined(first, last)
  assert(seriatim.pipelined(function()
    for id = first, last do
      app.single(id)
    end
  end))
end

---payload: nil for none.
function app.bulk(first, last, payload)
  local jobs = {}
  for id = first, last do
    jobs[#jobs + 1] = { id = id, payload = payload }
  end
  assert(BlankWorker:perform_async(jobs))
end

return app
