-- The application that the servers load, in each thread: it follows what dpkg did to each package.

local journal = require "journal"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local SECONDS_PER_LINE = tonumber(os.getenv("DEMO_SECONDS_PER_LINE")) or 0.002
local BAD_LUCK = 0.03 -- of all runs

local function note(event, line, run)
  journal.write(event, { package = run.package, fence = run.fence, pid = run.pid, number = line.number, state = line.state })
end

---The real work would be here; the journal says how far it came.
local function apply(line, run)
  note("begin", line, run)
  native.sleep(SECONDS_PER_LINE)
  note("end", line, run)
end

local function fail_at(line, run)
  note("begin", line, run)
  note("failed", line, run)
  error("bad luck")
end

local StatusWorker = seriatim.worker {
  name = "StatusWorker",
  shards_count = 12,

  retry_in = function()
    return 0.1 + 0.2 * math.random()
  end,

  -- All lines of a package that wait, by score: by their number in the log.
  perform = function(lines_by_package, batch)
    for package, lines in pairs(lines_by_package) do
      local run = { package = package, fence = batch:fence(package), pid = native.getpid() }
      local unlucky = math.random() < BAD_LUCK and math.random(#lines)
      for place, line in ipairs(lines) do
        local act = place == unlucky and fail_at or apply
        act(line, run)
      end
    end
  end,
}

seriatim.workers = { StatusWorker }
seriatim.lease_time = 2 -- seconds after which a killed server's packages are the other's

return StatusWorker
