-- bench_pop.lua SECONDS - what pop.rb does.

local count = require "count"
local seriatim = require "seriatim"

local function pop_one()
  local delivery, err = seriatim.pop("BlankWorker", { wait = 0 })
  assert(delivery, err or "nothing is left to pop")
  assert(delivery:ack())
end

pop_one()
print "ready"
io.stdout:flush()
io.read()
local popped, start, seconds = 0, count.now(), 0
while seconds < tonumber(arg[1]) do
  pop_one()
  popped = popped + 1
  seconds = count.now() - start
end
print(popped, seconds)
