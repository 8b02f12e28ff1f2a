-- A user's own worker under the crash kit: requiring this journals every run. See README.md. Does nothing where JOURNAL is not
-- set.

local batches = require "seriatim.server.batch"
local lines = require "journal_lines"
local native = require "seriatim.native"
local seriatim = require "seriatim"

local path = os.getenv("JOURNAL")
if not path then
  return
end

local write, now, step = lines.to(path), lines.now, lines.step

---The numbers of an id's payloads are their scores.
local function begin_all(queue, batch)
  for _, id in ipairs(batch.ids) do
    local numbers = {}
    for place, score in ipairs(batch:scores(id)) do
      numbers[place] = ("%d"):format(score)
    end
    write("start", native.getpid(), queue, id, batch:fence(id), batch:retry_count(id), table.concat(numbers, ","), now())
  end
end

local function end_all(queue, batch, done)
  for _, id in ipairs(batch.ids) do
    local outcome = batches.outcome(batch, id)
    local ended = done
    if outcome ~= nil then
      ended = outcome == batches.DONE
    end
    write(ended and "end" or "fail", native.getpid(), queue, id, batch:fence(id), now())
  end
end

seriatim.lease_time = tonumber(os.getenv("CRASH_LEASE") or "0.5")
table.insert(seriatim.server_middlewares, 1, function(worker, batch, next)
  lines.count_run()
  begin_all(worker.queue_name, batch)
  step("perform_begin")
  step("perform_during") -- there is no other thread for the middle of a run
  local results = table.pack(pcall(next))
  end_all(worker.queue_name, batch, results[1])
  step("perform_end")
  if not results[1] then
    error(results[2], 0)
  end
  return table.unpack(results, 2, results.n)
end)
