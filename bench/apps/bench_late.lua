-- What late.rb does.

local native = require "seriatim.native"
local seriatim = require "seriatim"

local result = assert(io.open(assert(os.getenv "BENCH_RESULT"), "ab"))

local LateWorker = seriatim.worker {
  name = "LateWorker",
  perform = function(payloads_by_id)
    local now, lines = native.time(), {}
    for id, payloads in pairs(payloads_by_id) do
      for _, payload in ipairs(payloads) do
        lines[#lines + 1] = ("%s %d %s %f\n"):format(id, payload.n, payload.at, now - tonumber(payload.at))
      end
    end
    result:write(table.concat(lines))
    result:flush()
  end,
}

seriatim.workers = { LateWorker }
