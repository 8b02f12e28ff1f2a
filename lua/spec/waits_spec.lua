-- F20: the handler of a signal runs while a program waits for Redis. In Lua such a handler sets a debug hook (lua.c's and luajit.c's
-- own handler of Ctrl-C do, too), which Lua calls when Lua code runs next: so a wait in C must run some.
local command = require "support.command"
local redis_server = require "support.redis_server"

local PROGRAM = [[
local seriatim = require "seriatim"
seriatim.redis = os.getenv("REDIS")
seriatim.push_timeout = 50
local orders = seriatim.worker { name = "Orders" }

local function say(...)
  print(...)
  io.flush()
end

assert(orders:perform_async { { id = "before" } })
os.execute("kill -STOP " .. os.getenv("REDIS_PID"))
say("ended", pcall(RUN(function()
  say "waits"
  return orders:perform_async { { id = "during" } }
end)))
say("added", assert(orders:perform_async { { id = "after" } }).added)
]]

local BEFORE_REDIS_TIMES_OUT = 20 -- seconds: without an answer the push ends after push_timeout

describe("a program that waits for Redis", function()
  local redis, shell

  setup(function() redis = redis_server.start() end)
  before_each(function()
    redis:flush()
    shell = command.shell(redis.url)
  end)
  after_each(function()
    os.execute("kill -CONT " .. redis.pid)
    shell:remove()
  end)
  teardown(function() redis:remove() end)

  ---Starts the interpreter with the program. Gives its pid and a function that reads what it has written.
  ---@param run string  what becomes of the function that pushes: nothing, or a coroutine
  local function start(run)
    local words = ("cd %s && LUA_PATH=%s LUA_CPATH=%s REDIS=%s REDIS_PID=%d exec %s program.lua > said 2>&1"):format(
      command.quote(shell.folder), command.quote(command.lua_path()), command.quote(command.lua_cpath()), redis.url, redis.pid,
      command.interpreter)
    shell:write("program.lua", (PROGRAM:gsub("RUN", run)))
    local pid = tonumber(command.output_of(("( %s ) & echo $!"):format(words)))
    shell.started[1] = { pid = pid, pids = function() return {} end }
    return pid, function() return command.read(shell.folder .. "/said") end
  end

  local function sleeps(pid)
    return command.read(("/proc/%d/stat"):format(pid)):match("%) (%a)") == "S"
  end

  ---@param run string
  local function is_interrupted_at_once(run)
    local pid, said = start(run)
    command.eventually(function() return said():find("waits\n", 1, true) and sleeps(pid) end, 60, said)
    os.execute("kill -INT " .. pid)
    command.eventually(function() return said():find("ended\t", 1, true) end, BEFORE_REDIS_TIMES_OUT, said)
    os.execute("kill -CONT " .. redis.pid)
    command.eventually(function() return not command.is_alive(pid) end)
    assert.matches("^waits\nended\tfalse\t[^\n]*interrupted!\nadded\t1\n$", said())
  end

  it("F20 is interrupted at once, and its next push succeeds", function() is_interrupted_at_once "" end)

  -- PUC 5.1 has a hook for each coroutine, and no way to find that of the main one, which the handler of Ctrl-C sets.
  if rawget(_G, "jit") or _VERSION ~= "Lua 5.1" then
    it("F20 is interrupted at once in a coroutine, and its next push succeeds", function() is_interrupted_at_once "coroutine.wrap" end)
  end
end)
