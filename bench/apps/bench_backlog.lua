-- The server of bench_latency.lua with a second queue, whose jobs take a millisecond and count from 0. Shards take
-- turns: the built-in scheduler runs what is older first, all of the backlog.

local count = require "count"
local native = require "seriatim.native"
local seriatim = require "seriatim"
require "bench_latency"

local BacklogWorker = seriatim.worker {
  name = "BacklogWorker",
  perform = function()
    native.sleep(0.001)
    count.note(0)
  end,
}

seriatim.workers[2] = BacklogWorker
seriatim.build_scheduler = seriatim.build_seq_scheduler

local app = {}

function app.bulk(first, last)
  local jobs = {}
  for id = first, last do
    jobs[#jobs + 1] = { id = id }
  end
  assert(BacklogWorker:perform_async(jobs))
end

return app
