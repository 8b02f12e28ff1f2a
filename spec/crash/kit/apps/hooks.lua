-- hooks.lua - twin of hooks.rb.
local seriatim = require "seriatim"

local path = os.getenv("APPEND")

local function exists(name)
  local file = io.open(name)
  return file and file:close()
end

seriatim.lease_time = 0.4
seriatim.workers = {
  seriatim.worker {
    queue_name = "Hooks",
    shards_count = 1,
    batch_size = 10,
    max_retry_count = 0,
    perform = function()
      error("for good", 0)
    end,
    retries_exhausted = function(jobs)
      for _, job in ipairs(jobs) do
        if job.id == "kills" and not exists(path .. ".killed") then
          assert(io.open(path .. ".killed", "w")):close()
          os.execute("kill -KILL $PPID; sleep 1")
        end
        local file = assert(io.open(path, "a"))
        file:write(("%s %d %d %s\n"):format(job.id, #job.payloads, job.payloads_count, job.error:match("[^\n]*")))
        file:close()
      end
    end,
  },
}
