-- bench_push.lua APP single|pipelined|bulk|fill|wait COUNT - pushes and prints the seconds that it took.
--
-- `single` is one job a call; `pipelined` the same, 100 calls in a pipeline; all others are 10,000 jobs a call. `fill` and `wait`
-- leave exactly COUNT jobs, `wait` ones with a payload of 30 bytes.

local app = require("bench_" .. arg[1])
local count = require "count"

local BULK = 10000
local PIPELINE = 100
local PAYLOAD = ("x"):rep(28) -- 30 bytes as JSON

local mode, jobs = arg[2], tonumber(arg[3])

local function push()
  if mode == "single" then
    for id = 1, jobs do
      app.single(id)
    end
    return
  end
  if mode == "pipelined" then
    for first = 1, jobs, PIPELINE do
      app.pipelined(first, math.min(first + PIPELINE - 1, jobs))
    end
    return
  end
  for first = 1, jobs, BULK do
    app.bulk(first, math.min(first + BULK - 1, jobs), mode == "wait" and PAYLOAD or nil)
  end
end

if mode ~= "fill" and mode ~= "wait" then
  app.bulk(0, 0) -- connects
end
local begun = count.now()
push()
print(count.now() - begun)
