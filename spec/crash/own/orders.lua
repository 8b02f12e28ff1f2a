-- An application as a user has it, with the one line that the crash kit needs.
local native = require "seriatim.native"
local seriatim = require "seriatim"
require "record"

local OrderWorker = seriatim.worker {
  name = "OrderWorker",
  shards_count = 8,
  batch_size = 3,
  retry_in = function() return 0.05 end,
  perform = function(payloads_by_id)
    for _, payloads in pairs(payloads_by_id) do
      native.sleep(0.001 * #payloads)
    end
  end,
}

seriatim.workers = { OrderWorker }
