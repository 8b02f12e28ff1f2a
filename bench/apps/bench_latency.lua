-- A server that notes when each job is performed.
--
-- Run by itself it is the pusher, which pushes by the schedule of count.pace.

local count = require "count"
local log = require "seriatim.log"
local seriatim = require "seriatim"

local LatencyWorker = seriatim.worker {
  name = "LatencyWorker",
  perform = function(payloads_by_id)
    local _, payloads = next(payloads_by_id)
    count.note(tonumber(payloads[1]))
  end,
}

seriatim.workers = { LatencyWorker }
log.level = log.WARN

if arg and arg[0]:find("bench_latency", 1, true) then
  -- A text: a JSON number has 14 digits.
  count.pace(function(number, pushed) assert(LatencyWorker:perform_async { { id = number, payload = ("%.6f"):format(pushed) } }) end)
end
