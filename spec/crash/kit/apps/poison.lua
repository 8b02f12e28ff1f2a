-- poison.lua - twin of poison.rb.
local seriatim = require "seriatim"

seriatim.lease_time = 0.4
seriatim.poll_interval = 0.1
seriatim.workers = {
  seriatim.worker {
    queue_name = "Poison",
    shards_count = 4,
    batch_size = 10,
    max_retry_count = math.tointeger(tonumber(os.getenv("RETRIES"))),
    retry_in = function()
      return 0.05
    end,
    perform = function(payloads_by_id, batch)
      for id in pairs(payloads_by_id) do
        local file = assert(io.open(os.getenv("APPEND"), "a"))
        file:write(("%s %d\n"):format(id, batch:retry_count(id)))
        file:close()
        if id == "bad" then
          os.execute("kill -ABRT $PPID; sleep 1")
        end
      end
    end,
  },
}
