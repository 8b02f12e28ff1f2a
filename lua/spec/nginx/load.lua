-- wrk: so many requests in all, one connection a thread: each thread's jobs are one after another.
-- LOAD_PATH, LOAD_COUNT (of each thread), LOAD_QUERY.

-- luacheck: globals answered bad
local path, count, query = os.getenv("LOAD_PATH"), tonumber(os.getenv("LOAD_COUNT")), os.getenv("LOAD_QUERY")
local threads, sent, all = 0, 0, {}
answered, bad = 0, 0

function setup(thread)
  threads = threads + 1
  thread:set("name", threads)
  all[threads] = thread
end

function request()
  sent = sent + 1
  return wrk.format("GET", ("%s?id=%d-%d&payload=%d%s"):format(path, name, sent % 50, sent, query))
end

function response(status)
  answered = answered + 1
  if status ~= 200 then
    bad = bad + 1
  end
  if answered == count then
    io.stderr:write("end\n") -- wrk itself would wait for its time
    wrk.thread:stop()
  end
end

function done(summary)
  local answers, failures = 0, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  for _, thread in ipairs(all) do
    answers, failures = answers + thread:get("answered"), failures + thread:get("bad")
  end
  io.write(("%d %d %d\n"):format(answers, failures, summary.duration))
end
