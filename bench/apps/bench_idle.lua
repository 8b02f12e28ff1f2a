-- A server of BENCH_QUEUES queues that get no jobs.

local log = require "seriatim.log"
local seriatim = require "seriatim"

local workers = {}
for number = 1, tonumber(os.getenv("BENCH_QUEUES")) do
  workers[number] = seriatim.worker { name = ("idle-%d"):format(number), perform = function() end }
end

seriatim.workers = workers
log.level = log.WARN
