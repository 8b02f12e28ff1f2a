-- A server that notes how long each job took from just before its push to perform.
--
-- Run by itself it is the pusher: BENCH_JOBS jobs, 20 ms apart.

local count = require "count"
local log = require "seriatim.log"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local LatencyWorker = seriatim.worker {
  name = "LatencyWorker",
  perform = function(payloads_by_id)
    local _, payloads = next(payloads_by_id)
    count.note(payloads[1])
  end,
}

seriatim.workers = { LatencyWorker }
log.level = log.WARN

if arg and arg[0]:find("bench_latency", 1, true) then
  for id = 1, count.JOBS do
    assert(LatencyWorker:perform_async { { id = id, payload = count.now() } })
    native.sleep(0.02)
  end
end
