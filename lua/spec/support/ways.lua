-- F9: ways to leave a job, and what is kept of each. `everywhere` work in any Lua state; `in_a_server` would end this one, or
-- be no failure in nginx.

local function deep()
  return deep() .. ""
end

local function nested()
  return pcall(nested) or error("nested")
end

local function texted(text)
  return setmetatable({}, { __tostring = text })
end

local mute = texted(function() error("no") end)
local endless = setmetatable({}, { __index = function() error("no field") end })
local looping = texted(function(self) return tostring(self) .. "" end)

---What error() does in its own handler, and in that one's.
local function fail_handling()
  return xpcall(function() error("first") end, function(raised) error(raised) end)
end

local ways = {}

---@type {[1]: string, [2]: function, [3]: string}[]  name, what the job does, a pattern of its error
ways.everywhere = {
  { "an error with its place", function() error("plain") end, "ways.lua:%d+: plain$" },
  { "an error without its place", function() error("plain", 0) end, "^plain$" },
  { "a table with a message", function() error { message = "of mine" } end, "^of mine$" },
  { "a table with a text", function() error(texted(function() return "texted" end)) end, "^texted$" },
  { "a bare table", function() error({}) end, "table" },
  { "nil", function() error(nil) end, "." },
  { "false", function() error(false) end, "." },
  { "a number", function() error(42, 0) end, "^42$" },
  { "a function", function() error(print) end, "." },
  { "a coroutine", function() error(coroutine.create(deep)) end, "thread" },
  { "a file", function() error(io.stdout) end, "." },
  { "a table without a text", function() error(mute) end, "." },
  { "a table whose text is none", function() error(texted(function() return {} end)) end, "." },
  { "a table whose text calls itself", function() error(looping) end, "." },
  { "a table whose text yields", function() error(texted(coroutine.yield)) end, "." },
  { "a table that has no fields", function() error(endless) end, "." },
  { "an empty text", function() error("", 0) end, "." },
  { "bytes that are no text", function() error("a\255\0b", 0) end, "a" },
  { "a text of 3 MB", function() error(("x"):rep(3e6), 0) end, "^xxx" },
  { "a stack overflow", deep, "[oe][vr]" }, -- LuaJIT has not always room for the handler: error in error handling
  { "an overflow of pcalls", nested, "." },
  { "an error of its error handler", function() error((select(2, fail_handling()))) end, "." },
  { "an error in a coroutine", function() coroutine.wrap(function() error("inner") end)() end, "inner" },
  { "a text that is too long", function() assert(#("x"):rep(2 ^ 50) == 2 ^ 50) end, "." },
  { "an index of nil", function() return (nil).field end, "attempt to index" },
  { "a module that is not there", function() require "no.such.module" end, "no.such.module" },
  { "a syntax error", function() assert((loadstring or load)("1 +")) end, "unexpected" },
  { "the way of Lua's libraries", function() return nil, "reason" end, "^reason$" },
  { "misuse of Seriatim", function() require("seriatim").lease_time = "x" end, "lease_time must be" },
  { "weather of Seriatim", function() error(require("seriatim.errors").new("IO", "gone")) end, "gone" },
}

ways.in_a_server = {
  { "a yield", function() coroutine.yield() end, "." },
  { "os.exit", function() os.exit(9) end, "os%.exit" },
  { "os.exit in a coroutine", function() coroutine.wrap(os.exit)(0, true) end, "os%.exit" },
}

---By their names.
function ways.named()
  local found = {}
  for _, list in ipairs { ways.everywhere, ways.in_a_server } do
    for _, way in ipairs(list) do
      found[way[1]] = way
    end
  end
  return found
end

return ways
