-- What tostring, and so print, shows of results.

local seriatim = require "seriatim"
local jobs = require "support.jobs"
local suite = require "support.suite"

suite.use { setup = setup, before_each = before_each, after_each = after_each, teardown = teardown }

describe("tostring shows the fields on one line", function()
  it("of a push's result", function()
    local recorder = jobs.worker("Orders", nil, { on_waiting = "reject" })
    assert.equal("seriatim.PushResult{added=2, folded=0, refused=0, refused_at={}, scheduled=0, stale=0, handles={}}",
      tostring(recorder:perform_async { { id = 1 }, { id = 2 } }))
    assert.equal("seriatim.PushResult{added=1, folded=0, refused=2, refused_at={1, 3}, scheduled=0, stale=0, handles={}}",
      tostring(recorder:perform_async { { id = 1 }, { id = 3 }, { id = 2 } }))
  end)

  it("of the figures of a queue and of a shard", function()
    local recorder = jobs.worker("Orders", nil, { shards_count = 2 })
    recorder:perform_async { { id = 1, delay = 60 } }
    local metrics = assert(recorder:metrics())
    assert.matches("^seriatim%.Metrics{length=1, scheduled=0, stale=0, fresh=1, .*shards={2 tables}}$", tostring(metrics))
    assert.matches("^seriatim%.ShardFigures{length=[01], scheduled=0, stale=0, fresh=[01], ", tostring(metrics.shards[1]))
    for _, figures in ipairs { metrics, metrics.shards[1] } do
      for field in pairs(figures) do
        assert.matches("[{ ]" .. field .. "=", tostring(figures))
      end
    end
  end)

  it("of a batch, without its payloads", function()
    local shown
    local recorder = jobs.worker("Lines", function(_, batch) shown = tostring(batch) end)
    recorder:perform_async { { id = "a\nb", payload = "secret" } }
    jobs.serve(recorder)
    jobs.drained(recorder)
    assert.matches("^seriatim%.Batch{queue='Lines', shard=%d+, ids={'a\\10b'}}$", shown)
  end)

  it("of a node", function()
    local node = jobs.serve(jobs.worker("Orders"))
    local found
    repeat
      jobs.step(0.01)
      found = assert(seriatim.nodes())[1]
    until found
    local name = node.id:gsub("%-", "%%-")
    assert.matches("^seriatim%.NodeInfo{name='" .. name .. "', description='.*, threads=3, since=%d+, .*}$", tostring(found))
  end)
end)
