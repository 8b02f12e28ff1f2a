-- Workers of the nginx tests that misbehave: jobs that leave in every way, one that holds its nginx worker, hooks.

local seriatim = require "resty.seriatim"

---@param app table  gets them
---@param note fun(line: string)  appends to the journal
---@param ask fun(command: string, ...): any  of the journal's Redis
return function(app, note, ask)
  app.Leaves = seriatim.worker {
    name = "Leaves",
    retry_in = function() return 3600 end,
    perform = function(payloads_by_id)
      local way = select(2, next(payloads_by_id))[1]
      if way == "os.exit" then
        os.exit(2)
      elseif way == "a killed light thread" then
        return ngx.thread.wait(ngx.thread.spawn(function() error("in a light thread") end))
      elseif way ~= "good" then
        return require("support.ways").named()[way][2]()
      end
    end,
  }

  -- Spins until the file is there (at most a minute): nothing else of this nginx worker runs meanwhile.
  app.Spin = seriatim.worker {
    name = "Spin",
    perform = function(payloads_by_id)
      local id, payloads = next(payloads_by_id)
      note(("begin %s %d"):format(id, ngx.worker.pid()))
      local finish = require("seriatim.native").now_ms() + 60000
      local is_first = ask("llen", "journal") == 1
      while is_first and require("seriatim.native").now_ms() < finish do
        is_first = not io.open(payloads[1])
      end
      note(("end %s %d"):format(id, ngx.worker.pid()))
    end,
  }

  local HOOKS = {
    ["retry_in raises"] = { retry_in = function() error("hook") end },
    ["retry_in gives NaN"] = { retry_in = function() return 0 / 0 end },
    ["retry_in gives infinity"] = { retry_in = function() return math.huge end },
    ["retry_in gives a text"] = { retry_in = function() return "soon" end },
    ["retry_in sleeps"] = { retry_in = function() ngx.sleep(0.1) return 3600 end },
    ["retry_in exits"] = { retry_in = function() os.exit(2) end },
    ["retries_exhausted raises"] = { max_retry_count = 0, retries_exhausted = function() error("hook") end },
    ["retries_exhausted sleeps"] = { max_retry_count = 0, retries_exhausted = function() ngx.sleep(0.1) end },
  }

  for name, options in pairs(HOOKS) do
    options.name = name
    options.perform = function(payloads_by_id)
      if next(payloads_by_id) == "bad" then
        error("bad luck")
      end
      note("good " .. name:gsub(" ", "_"))
    end
    app[name] = seriatim.worker(options)
  end
end
